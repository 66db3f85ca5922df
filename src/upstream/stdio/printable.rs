//! A child's bytes as text that is safe to show: no control characters, no terminal sequences, cut at a limit.

/// Stands for what was cut off.
const CUT: char = '…';

/// At most about `max` bytes of `bytes` as one line of text; what is no UTF-8 becomes U+FFFD.
pub(super) fn printable(bytes: &[u8], max: usize) -> String {
    let cut = bytes.len() > max;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(max)]);
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut characters),
            '\t' => shown.push(' '),
            _ if character.is_control() => {}
            _ => shown.push(character),
        }
    }
    if cut {
        shown.push(CUT);
    }
    shown
}

/// Skips what follows ESC: a sequence such as `[31m` up to its final letter, or a single character.
fn skip_sequence(characters: &mut std::str::Chars<'_>) {
    if characters.next() == Some('[') {
        characters.find(|character| ('\u{40}'..='\u{7e}').contains(character));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_safe_from_children() {
        let table: [(&[u8], &str); 6] = [
            (b"plain", "plain"),
            (b"\x1b[1;31mred\x1b[0m\ttab\r", "red tab"),
            (b"\x1b", ""),
            (b"a\x1b[", "a"),
            ("é\u{9b}31m漢".as_bytes(), "é31m漢"),
            (b"bad \xff", "bad \u{fffd}"),
        ];
        for (bytes, shown) in table {
            assert_eq!(printable(bytes, 100), shown);
        }
        assert_eq!(printable(b"abcdef", 3), "abc…");
    }
}
