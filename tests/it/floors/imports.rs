//! Which files of a crate name which others, read from their text: `use` items with their groups and other names, and
//! every path in code. Names that the crate's root leads on stand for what they lead to.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::tokens;

type Names = Vec<String>;

/// What a file says of others.
#[derive(Default)]
struct File {
    /// Every path, and the module that it stands in, which may be one within the file.
    paths: Vec<(Names, Names)>,
    /// What names mean here, by `use`.
    bound: BTreeMap<String, Names>,
}

struct Files<'a>(BTreeMap<&'a str, File>);

/// Which files each file names, all by their modules. The root's module is the empty one, and no file of its own.
pub(super) fn imports(sources: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let files = sources.iter().map(|(module, source)| (module.as_str(), read(names(module), &tokens(source))));
    let files = Files(files.collect());
    let mut all = BTreeMap::new();
    for (&module, file) in files.0.iter().filter(|(module, _)| !module.is_empty()) {
        let named = file.paths.iter().filter_map(|(within, path)| files.named(module, within, path));
        all.insert(module, named.filter(|other| *other != module && !other.is_empty()).collect());
    }
    all
}

/// All paths of a source that begin with a name from elsewhere, by what it was bound to here.
pub(super) fn outside(source: &str) -> Vec<Names> {
    let file = read(Names::new(), &tokens(source));
    let mut found = Vec::new();
    for (_, path) in &file.paths {
        let mut full = path.clone();
        // A name of a name, and so on; a name that is bound to itself is from elsewhere.
        for _ in 0..8 {
            match file.bound.get(&full[0]).filter(|bound| bound[0] != full[0]) {
                Some(bound) => full = [&bound[..], &full[1..]].concat(),
                None => break,
            }
        }
        found.push(full);
    }
    found
}

impl<'a> Files<'a> {
    /// The file that a path in module `within` of a file leads to.
    fn named(&self, file: &str, within: &[String], path: &[String]) -> Option<&'a str> {
        let full = self.resolved(file, within, path)?;
        let beginnings = (1..=full.len()).rev().map(|end| full[..end].join("::"));
        if let Some((found, _)) = beginnings.filter_map(|module| self.0.get_key_value(module.as_str())).next() {
            return Some(found);
        }
        // A name that the root leads on; its own are no file's.
        let bound = self.0.get("")?.bound.get(full.first()?)?;
        if bound[0] == full[0] { None } else { self.named("", &[], bound) }
    }

    /// A path with all names from the root on; none if it leads out of the crate.
    fn resolved(&self, file: &str, within: &[String], path: &[String]) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([within, rest].concat()),
            "super" => {
                let up = rest.iter().take_while(|name| *name == "super").count();
                Some([&within[..within.len().saturating_sub(1 + up)], &rest[up..]].concat())
            }
            name => match self.0[file].bound.get(name) {
                Some(bound) if bound[0] != name => self.resolved(file, &names(file), &[&bound[..], rest].concat()),
                // A child, if it is one.
                _ => {
                    let full = [&names(file)[..], path].concat();
                    let child = full[..full.len() - rest.len()].join("::");
                    self.0.contains_key(child.as_str()).then_some(full)
                }
            },
        }
    }
}

fn names(module: &str) -> Names {
    module.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// What a file says, of which `tokens` are left.
fn read(module: Names, tokens: &[&str]) -> File {
    let mut file = File::default();
    let mut within = module;
    // How many braces were open where each module within the file began.
    let (mut open, mut inner) = (0, Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at..] {
            ["mod", name, "{", ..] => {
                within.push(name.to_owned());
                inner.push(open);
                open += 1;
                at += 3;
            }
            ["use", ..] => {
                at = use_tree(tokens, at + 1, &[], &within, &mut file);
            }
            // No import, but how far a name is seen.
            ["pub", "(", "in", ..] => at += 3 + path(&tokens[at + 3..]).len(),
            ["{", ..] => {
                open += 1;
                at += 1;
            }
            ["}", ..] => {
                open -= 1;
                if inner.last() == Some(&open) {
                    inner.pop();
                    within.pop();
                }
                at += 1;
            }
            _ => {
                let path = path(&tokens[at..]);
                let is_of_a_type = at > 0 && [".", "::"].contains(&tokens[at - 1]);
                at += path.len().max(1);
                let names: Names = path.iter().filter(|name| **name != "::").map(|name| (*name).to_owned()).collect();
                if names.len() > 1 && !is_of_a_type {
                    file.paths.push((within.clone(), names));
                }
            }
        }
    }
    file
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The tokens of the path that begins here.
fn path<'a, 'b>(tokens: &'b [&'a str]) -> &'b [&'a str] {
    let is_of_it = |at: &usize| match at % 2 {
        0 => is_name(tokens[*at]),
        _ => tokens[*at] == "::" && tokens.get(at + 1).is_some_and(|next| is_name(next)),
    };
    &tokens[..(0..tokens.len()).take_while(is_of_it).count()]
}

/// Enters what follows `use` or stands in its groups, and returns where it ends.
fn use_tree(tokens: &[&str], mut at: usize, lead: &[String], within: &[String], file: &mut File) -> usize {
    let mut names = lead.to_vec();
    loop {
        match tokens[at] {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = use_tree(tokens, at, &names, within, file);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "self" if !names.is_empty() => at += 1,
            "*" => at += 1,
            name if is_name(name) && name != "as" => {
                names.push(name.to_owned());
                at += 1;
            }
            _ => break,
        }
    }
    let mut last = names.last().cloned();
    if tokens[at] == "as" {
        last = Some(tokens[at + 1].to_owned());
        at += 2;
    }
    // What is taken from a child begins with the child, whatever else has that name.
    if let Some(name) = last.filter(|_| tokens[at - 1] != "*") {
        file.bound.insert(name, names.clone());
    }
    file.paths.push((within.to_vec(), names));
    at
}
