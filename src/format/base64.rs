//! Base64 with padding (RFC 4648, section 4), in which Zarr v2 has fill values of raw bytes.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0usize, |bits, at| bits << 8 | usize::from(*three.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let letter = if at <= three.len() { LETTERS[bits >> (18 - 6 * at) & 63] } else { b'=' };
            text.push(letter.into());
        }
    }
    text
}

/// `None`: it is no Base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let (fours, rest) = text.as_bytes().as_chunks::<4>();
    let mut bytes = Vec::new();
    for (number, four) in fours.iter().enumerate() {
        let padding = four.iter().rev().take_while(|letter| **letter == b'=').count();
        if padding > 2 || (padding > 0 && number + 1 < fours.len()) {
            return None;
        }
        let mut bits = 0;
        for letter in &four[..4 - padding] {
            bits = bits << 6 | LETTERS.iter().position(|known| known == letter)?;
        }
        let three = (bits << (6 * padding)).to_be_bytes();
        bytes.extend(&three[size_of::<usize>() - 3..][..3 - padding]);
    }
    rest.is_empty().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, section 10.
    #[test]
    fn the_vectors_of_the_standard() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        for text in ["Z", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9v!m8=", "Z=9v"] {
            assert_eq!(decode(text), None, "{text}");
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
    }
}
