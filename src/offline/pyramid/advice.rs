//! What to do with arrays that are in no image: the call that makes an image with levels of one.

use std::path::Path;

use crate::format::{zarr2, zarr3};
use crate::offline::array::Array;
use crate::offline::hierarchy::walk::{self, Node};
use crate::offline::hierarchy::{groups_around, ome_of};
use crate::ome::multiscales;
use crate::words::shell_word;

/// What to do with the array at `path`; `None` where it is in an image.
pub(super) fn of_array(path: &Path) -> Option<String> {
    if groups_around(path).any(is_image) {
        return None;
    }
    call(&Array::open_exactly(path).ok().flatten()?)
}

/// What to do with the first array of the group at `path`; `None` where there is an image, or nothing of which
/// one can be made.
pub(super) fn of_group(path: &Path) -> Option<String> {
    let is_group = [zarr2::GROUP, zarr3::DOCUMENT].into_iter().any(|name| path.join(name).is_file());
    let nodes = walk::nodes(path).ok().filter(|_| is_group)?;
    if nodes.iter().any(|node| node.is_group() && is_image(&node.path)) {
        return None;
    }
    nodes.iter().filter_map(Node::array).find_map(call)
}

/// Whether the group is an image, of any version of OME-Zarr.
fn is_image(group: &Path) -> bool {
    let ome = ome_of(group).ok().flatten().unwrap_or_default();
    multiscales::images(&ome).next().is_some()
}

fn call(array: &Array) -> Option<String> {
    let dimensions = array.shape().len();
    array.dtype().number().filter(|_| dimensions >= 2)?;
    // More dimensions than time, rows and columns have to be named by somebody.
    let axes = if dimensions > 3 && array.dimension_names().is_none() { " --axes …" } else { "" };
    Some(format!("shardwright replay {} NEW.ome.zarr{axes} --pyramid mean", shell_word(array.path())))
}
