//! Arrays of messages, for the one revision that has them (RPC-15).

use bytes::Bytes;

use crate::jsonrpc::scan::{self, ScanError};

/// Whether a text is an array rather than an object; decided by its first byte.
#[must_use]
pub fn is_batch(text: &[u8]) -> bool {
    text.get(scan::skip_space(text, 0)) == Some(&b'[')
}

/// The elements of a batch, sharing its memory; each may still be no message.
///
/// # Errors
/// `NotArray`, or what the scan reports.
pub fn split(text: &Bytes) -> Result<Vec<Bytes>, ScanError> {
    if let Err(bad) = std::str::from_utf8(text) {
        return Err(ScanError::Syntax(bad.valid_up_to()));
    }
    let mut out = Vec::new();
    let end = scan::elements(text, scan::skip_space(text, 0), |element| {
        out.push(text.slice(element));
        Ok(())
    })?;
    if scan::skip_space(text, end) != text.len() {
        return Err(ScanError::Syntax(end));
    }
    Ok(out)
}

/// The array of `messages`.
#[must_use]
pub fn join(messages: &[Bytes]) -> Bytes {
    let mut out = Vec::with_capacity(messages.iter().map(|message| message.len() + 1).sum::<usize>() + 1);
    out.push(b'[');
    for (n, message) in messages.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend_from_slice(message);
    }
    out.push(b']');
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_and_joining_agree() {
        let text = Bytes::from(r#"[{"a":[1,2]},7,null]"#);
        assert!(is_batch(&text));
        assert_eq!(join(&split(&text).unwrap()), text);
        assert!(split(&Bytes::from("[1] 2")).is_err());
        assert!(split(&Bytes::from("{}")).is_err());
        assert_eq!(split(&Bytes::from(" [ ] ")).unwrap(), Vec::<Bytes>::new());
    }
}
