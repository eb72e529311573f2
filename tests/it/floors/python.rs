//! Which modules of a Python package name which others, read from the imports in their text, also from those within
//! functions and for type checkers alone.

use std::collections::{BTreeMap, BTreeSet};

/// Which modules each module names, all by their full names. A name that is no module's is one of the package's.
pub(super) fn imports(sources: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let known = |path: &str| {
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        ends.rev().find_map(|end| sources.get_key_value(&path[..end]).map(|(module, _)| module.as_str()))
    };
    let mut all = BTreeMap::new();
    for (module, source) in sources {
        let is_package = sources.keys().any(|other| other.starts_with(&format!("{module}.")));
        let paths = statements(source).into_iter().map(|path| absolute(&path, module, is_package));
        let named: BTreeSet<&str> = paths.filter_map(|path| known(&path)).filter(|other| other != module).collect();
        all.insert(module.as_str(), named);
    }
    all
}

/// What `.x` and `..x` mean in a module.
fn absolute(path: &str, module: &str, is_package: bool) -> String {
    let name = path.trim_start_matches('.');
    let dots = path.len() - name.len();
    if dots == 0 {
        return name.to_owned();
    }
    let parts: Vec<&str> = module.split('.').collect();
    let package = parts.len().saturating_sub(dots - usize::from(is_package));
    [&parts[..package], &[name]].concat().join(".")
}

/// Every imported name with where it comes from: `a.b` for `import a.b` and for `from a import b`.
fn statements(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_text = false;
    let mut lines = source.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    while let Some(line) = lines.next() {
        // A text of several lines begins or ends here.
        let turns = line.matches("\"\"\"").count() % 2 == 1;
        if in_text || turns {
            in_text ^= turns;
            continue;
        }
        if let Some(modules) = line.strip_prefix("import ") {
            found.extend(modules.split(',').map(without_alias));
        }
        let Some((from, names)) = line.strip_prefix("from ").and_then(|rest| rest.split_once(" import ")) else {
            continue;
        };
        let mut names = names.to_owned();
        while names.starts_with('(') && !names.contains(')') {
            names.push_str(lines.next().expect("a bracket is closed"));
        }
        let lead = if from.ends_with('.') { from.to_owned() } else { format!("{from}.") };
        let names = names.trim_matches(['(', ')']).split(',').map(without_alias).filter(|name| !name.is_empty());
        found.extend(names.map(|name| format!("{lead}{name}")));
    }
    found
}

fn without_alias(name: &str) -> String {
    name.trim().split(' ').next().unwrap_or("").to_owned()
}
