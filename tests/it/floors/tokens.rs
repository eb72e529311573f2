//! A file of Rust as its names and marks: without comments, without what is in quotes, and without what is compiled for
//! tests alone.

/// The tokens of a source: names and numbers, `::`, and every other mark by itself.
pub(super) fn tokens(source: &str) -> Vec<&str> {
    let mut found = without_tests(&all(source));
    found.retain(|token| !token.contains('"'));
    found
}

/// The texts in a source, with their quotes.
pub(super) fn texts(source: &str) -> Vec<&str> {
    let mut found = without_tests(&all(source));
    found.retain(|token| token.contains('"'));
    found
}

/// All tokens, and all texts in quotes.
fn all(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = if let Some(length) = passed_over(rest) {
            let is_text = ["\"", "r\"", "r#", "b\"", "br", "c\""].iter().any(|start| rest.starts_with(start));
            found.extend(is_text.then_some(&rest[..length]));
            length
        } else {
            let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
            let length = match first {
                c if is_of_name(c) => rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            found.push(&rest[..length]);
            length
        };
        rest = &rest[length..];
    }
    found
}

/// How long the blank, the comment, the text in quotes or the lifetime is that stands here, if one does.
fn passed_over(rest: &str) -> Option<usize> {
    let until = |end: &str, from: usize| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    let mut chars = rest.chars();
    match (chars.next()?, chars.next().unwrap_or_default()) {
        (c, _) if c.is_whitespace() => Some(c.len_utf8()),
        ('/', '/') => Some(until("\n", 2)),
        ('/', '*') => Some(until("*/", 2)),
        ('r', '"') => Some(until("\"", 2)),
        ('r', '#') if rest[1..].trim_start_matches('#').starts_with('"') => {
            let marks = rest[1..].find('"')?;
            Some(until(&format!("\"{}", &rest[1..=marks]), marks + 2))
        }
        ('b', '"' | '\'') => Some(1 + quoted(&rest[1..])),
        ('b' | 'c', 'r' | '"') if rest[1..].starts_with('"') || rest[1..].starts_with("r\"") => {
            Some(1 + passed_over(&rest[1..])?)
        }
        ('"', _) => Some(quoted(rest)),
        ('\'', '\\') => Some(quoted(rest)),
        // A character, or else a lifetime.
        ('\'', c) if rest[1 + c.len_utf8()..].starts_with('\'') => Some(2 + c.len_utf8()),
        ('\'', _) => Some(1),
        _ => None,
    }
}

/// How long a text in quotes is, with both of them.
fn quoted(rest: &str) -> usize {
    let mark = rest.as_bytes()[0];
    let mut at = 1;
    while at < rest.len() && rest.as_bytes()[at] != mark {
        at += if rest.as_bytes()[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Leaves out each item that is compiled for tests alone.
fn without_tests<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_for_tests(&tokens[at..]) {
            at = end_of_item(tokens, at);
        } else {
            found.push(tokens[at]);
            at += 1;
        }
    }
    found
}

fn is_for_tests(tokens: &[&str]) -> bool {
    tokens.starts_with(&["#", "[", "cfg", "(", "test", ")", "]"])
        || tokens.starts_with(&["#", "[", "cfg", "(", "all", "(", "test"])
}

/// Where an item ends that begins with attributes: at a semicolon, a comma or a closing brace outside of all brackets.
fn end_of_item(tokens: &[&str], mut at: usize) -> usize {
    while tokens[at] == "#" {
        at = closed(tokens, at + 1);
    }
    while at < tokens.len() {
        match tokens[at] {
            ";" | "," => return at + 1,
            "{" => return closed(tokens, at),
            // Of a list whose last item this is.
            "}" | ")" => return at,
            "(" | "[" => at = closed(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// Behind the bracket that closes the one at `at`.
pub(super) fn closed(tokens: &[&str], mut at: usize) -> usize {
    let mut open = 0;
    while at < tokens.len() {
        match tokens[at] {
            "(" | "[" | "{" => open += 1,
            ")" | "]" | "}" => open -= 1,
            _ => {}
        }
        at += 1;
        if open == 0 {
            break;
        }
    }
    at
}
