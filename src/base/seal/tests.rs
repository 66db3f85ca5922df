//! Seals: what opens, and that nothing else does.

use proptest::prelude::*;

use super::*;

const SESSION: Purpose = Purpose("session");
const CURSOR: Purpose = Purpose("cursor");

/// D5
#[test]
fn older_keys_open_and_the_current_one_seals() {
    let [old, new] = [[1; 32], [2; 32]];
    let before = Ring::from_keys(old.into(), []);
    let after = Ring::from_keys(new.into(), [old.into()]);
    let alone = Ring::from_keys(new.into(), []);

    let sealed = before.seal(SESSION, "t", &[], b"x");
    assert_eq!(after.open(SESSION, "t", &[], &sealed), Some(b"x".to_vec()));
    assert_eq!(alone.open(SESSION, "t", &[], &sealed), None);

    let sealed = after.seal(SESSION, "t", &[], b"y");
    assert_eq!(alone.open(SESSION, "t", &[], &sealed), Some(b"y".to_vec()));
    assert_eq!(before.open(SESSION, "t", &[], &sealed), None);
}

///
#[test]
fn malformed_text_does_not_open() {
    let ring = Ring::random();
    let sealed = ring.seal(SESSION, "t", &[], b"plain");
    let padded = format!("{sealed}=");
    let spaced = format!(" {sealed}");
    let long = "A".repeat(caps::SEALED_TEXT_BYTES + 1);
    for text in ["", "A", "%%%", "é", &padded, &spaced, &long, &sealed[1..], &"A".repeat(44)] {
        assert_eq!(ring.open(SESSION, "t", &[], text), None, "{text}");
    }
}

/// SEC-24
#[test]
fn keys_are_not_printed() {
    let key = Key::random();
    let text = key.reveal();
    assert_eq!(format!("{key:?}"), "Key(..)");
    assert_eq!(format!("{:?}", Ring::from_keys(key, [])), "Ring(1 keys)");
    assert_eq!(Key::parse(&text).map(|key| key.reveal()), Some(text.clone()));
    assert!(Key::parse(&text[1..]).is_none() && Key::parse("").is_none());
}

#[test]
fn two_seals_of_one_text_differ() {
    let ring = Ring::random();
    assert_ne!(ring.seal(SESSION, "t", &[], b"x"), ring.seal(SESSION, "t", &[], b"x"));
}

#[test]
fn keys_beyond_those_remembered_work_all_the_same() {
    let ring = Ring::random();
    for tenant in 0..caps::DERIVED_KEYS + 2 {
        let _ = ring.seal(SESSION, &tenant.to_string(), &[], b"x");
    }
    for tenant in ["0", &(caps::DERIVED_KEYS + 1).to_string(), "new"] {
        let sealed = ring.seal(SESSION, tenant, &[], b"x");
        assert_eq!(ring.open(SESSION, tenant, &[], &sealed), Some(b"x".to_vec()));
        assert_eq!(ring.open(SESSION, "1", &[], &sealed), None);
    }
    let derived = ring.current.derived.read().expect("no panic under the lock");
    assert_eq!(derived.values().map(HashMap::len).sum::<usize>(), caps::DERIVED_KEYS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// D5: what was sealed opens with the same binding and with no other.
    #[test]
    fn only_the_same_binding_opens(
        tenant in ".{0,9}", other in ".{0,9}",
        aad in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..4), 0..4),
        foreign in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..4), 0..4),
        plain in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let ring = Ring::random();
        let aad: Vec<&[u8]> = aad.iter().map(Vec::as_slice).collect();
        let foreign: Vec<&[u8]> = foreign.iter().map(Vec::as_slice).collect();
        let sealed = ring.seal(SESSION, &tenant, &aad, &plain);
        prop_assert_eq!(ring.open(CURSOR, &tenant, &aad, &sealed), None);
        prop_assert_eq!(ring.open(SESSION, &other, &aad, &sealed).is_some(), tenant == other);
        prop_assert_eq!(ring.open(SESSION, &tenant, &foreign, &sealed).is_some(), aad == foreign);
        prop_assert_eq!(Ring::random().open(SESSION, &tenant, &aad, &sealed), None);
        prop_assert_eq!(ring.open(SESSION, &tenant, &aad, &sealed), Some(plain));
    }

    /// D5: no altered text opens.
    #[test]
    fn nothing_altered_opens(at in any::<prop::sample::Index>(), with in "[A-Za-z0-9_-]", cut in any::<prop::sample::Index>()) {
        let ring = Ring::random();
        let sealed = ring.seal(SESSION, "t", &[b"p"], b"some plain text");
        let at = at.index(sealed.len());
        let altered = format!("{}{with}{}", &sealed[..at], &sealed[at + 1..]);
        prop_assert_eq!(ring.open(SESSION, "t", &[b"p"], &altered).is_some(), altered == sealed);
        prop_assert_eq!(ring.open(SESSION, "t", &[b"p"], &sealed[..cut.index(sealed.len())]), None);
    }

    /// nothing that comes from outside does harm.
    #[test]
    fn any_text_is_just_refused(text in ".{0,120}") {
        prop_assert_eq!(Ring::random().open(SESSION, "t", &[], &text), None);
    }
}
