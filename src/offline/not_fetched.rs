//! Links in groups to what is not here, as git-annex and DataLad leave them: each may be an array.

use super::hierarchy::walk::{Node, NodeKind};
use crate::format::node;
use crate::fs::{is_work, look};

/// What to say of them.
pub(super) fn notes(nodes: &[Node]) -> Vec<String> {
    let groups = nodes.iter().filter(|node| matches!(node.kind, NodeKind::Group(None)));
    // What can't be listed is told by who reads it.
    let children = groups.flat_map(|group| look::list(&group.path).unwrap_or_default());
    let is_document = |name: &str| node::ALL.contains(&name) || is_work(name);
    let mut links: Vec<_> = children
        .filter(|path| path.is_symlink() && !path.exists())
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_none_or(|name| !is_document(name)))
        .collect();
    links.sort();
    let note = |path: &std::path::PathBuf| {
        format!("{} is a link to something that is not here, and may be an array or a group", path.display())
    };
    links.iter().map(note).collect()
}
