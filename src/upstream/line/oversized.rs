//! Whose answer a message was that is too large to be kept, told from both its ends (F-035).

use crate::framing::oversized::Oversized;
use crate::jsonrpc::id;

/// Which of the `open` calls a message is the answer to that was too large to be kept: the one that its id names,
/// or without an id to be seen the one that is alone. Requests and notifications are nobody's answer.
pub(super) fn meant(frame: &Oversized, mut open: impl Iterator<Item = u64>) -> Option<u64> {
    if frame.members(br#""method""#).next().is_some() {
        return None;
    }
    let id = frame.members(br#""id""#).find_map(|rest| {
        let value = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        // Also where it came back as a string (F-039).
        let value = value.strip_prefix(b"\"").unwrap_or(value);
        let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
        id::number(&value[..end])
    });
    match id {
        Some(id) => open.find(|open| *open == id),
        None => open.next().filter(|_| open.next().is_none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(head: &[u8], tail: &[u8], open: &[u64]) -> Option<u64> {
        let frame = Oversized { bytes: 1 << 30, head: head.to_vec().into(), tail: tail.to_vec().into() };
        super::meant(&frame, open.iter().copied())
    }

    /// F-035
    #[test]
    fn f_035_the_id_is_found_in_the_ends_of_a_message() {
        let open = [9, 17];
        assert_eq!(meant(br#"{"jsonrpc":"2.0","id" : 17,"result":{"id":9,"#, b"x\"}}", &open), Some(17));
        assert_eq!(
            meant(br#"{"result":{"a":[{"id":17,"#, br#"a}"}]},"jsonrpc":"2.0","id":9}"#, &open),
            Some(9)
        );
        assert_eq!(meant(br#"{"id":"9","result":"aa"#, b"aa\"}", &open), Some(9));
    }

    /// F-035: an id further inside is the server's own, and a call is not failed for another's answer.
    #[test]
    fn f_035_an_oversized_message_fails_no_innocent_call() {
        // Another call is in flight, and the items of the answer bear its number.
        assert_eq!(meant(br#"{"id":1,"result":{"items":[{"id":2,"#, br#"{"id":2}]}}"#, &[1, 2]), Some(1));
        assert_eq!(meant(br#"{"result":{"items":[{"id":2,"#, br#"{"id":2}]}}"#, &[1, 2]), None);
        // The answer comes after its call was cancelled.
        assert_eq!(meant(br#"{"id":1,"result":{"items":["#, b"]}}", &[2]), None);
        // No answer at all, whatever number the server gave it.
        assert_eq!(meant(br#"{"method":"notifications/message","params":{"data":""#, b"\"}}", &[2]), None);
        assert_eq!(meant(br#"{"id":2,"method":"sampling/createMessage","params":{"#, b"}}", &[2]), None);
        // An answer that shows no id can only be that of the call that is alone (F-039).
        assert_eq!(meant(br#"{"result":{"items":["#, b"]}}", &[2]), Some(2));
    }
}
