//! Which files of a crate call methods that another one adds to a type that is not its own: an arrow that no import
//! shows.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{closed, tokens};

/// Which files each file needs for methods of types that it names. Only methods whose name no other function of the
/// crate bears are looked for, because nothing here knows of what type a value is.
pub(super) fn method_calls(sources: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let files: Vec<_> = sources.iter().map(|(module, source)| (module.as_str(), tokens(source))).collect();
    let mut declared = BTreeMap::<&str, usize>::new();
    for pair in files.iter().flat_map(|(_, tokens)| tokens.windows(2)).filter(|pair| pair[0] == "fn") {
        *declared.entry(pair[1]).or_default() += 1;
    }
    let mut found = BTreeMap::<_, BTreeSet<_>>::new();
    for (module, within) in &files {
        for (of, method) in added(within).into_iter().filter(|(_, method)| declared[method] == 1) {
            let others = files.iter().filter(|(other, tokens)| other != module && tokens.contains(&of));
            for (caller, _) in others.filter(|(_, tokens)| calls(tokens, method)) {
                found.entry(*caller).or_default().insert(*module);
            }
        }
    }
    found
}

fn calls(tokens: &[&str], method: &str) -> bool {
    tokens.windows(3).any(|found| match *found {
        [".", name, "("] => name == method,
        // Called, or passed on.
        ["::", name, next] => name == method && next != "::",
        _ => false,
    })
}

/// The methods that a file adds to types which it does not define, each behind its type.
fn added<'a>(tokens: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let is_definition = |pair: &&[&str]| ["struct", "enum", "union"].contains(&pair[0]);
    let own: BTreeSet<&str> = tokens.windows(2).filter(is_definition).map(|pair| pair[1]).collect();
    let begins = |at: &usize| tokens[*at] == "impl" && (*at == 0 || ["}", ";", "]"].contains(&tokens[at - 1]));
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(begins) {
        let head = tokens[at + 1..].iter().take_while(|token| **token != "{").copied().collect::<Vec<_>>();
        let Some(of) = extended(&head).filter(|of| !own.contains(of)) else { continue };
        let open = at + 1 + head.len();
        let body = &tokens[open..closed(tokens, open)];
        found.extend(body.windows(2).filter(|pair| pair[0] == "fn").map(|pair| (of, pair[1])));
    }
    found
}

/// The type to which a block adds, of what stands between `impl` and its brace; none if it is a trait's.
fn extended<'a>(head: &[&'a str]) -> Option<&'a str> {
    let (mut depth, mut last) = (0, None);
    for (at, token) in head.iter().enumerate() {
        match *token {
            "<" => depth += 1,
            ">" if head[at - 1] != "-" => depth -= 1,
            "for" if depth == 0 => return None,
            "where" if depth == 0 => break,
            name if depth == 0 && name.starts_with(char::is_alphabetic) => last = Some(name),
            _ => {}
        }
    }
    last
}
