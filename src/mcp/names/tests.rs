//! Names: what stays, what becomes an alias, and that nothing is ever exposed twice.

use proptest::prelude::*;

use super::*;

fn name(namespace: Option<&str>, original: &str, budget: usize) -> String {
    expose(namespace, original, budget).name
}

fn is_valid(name: &str, budget: usize) -> bool {
    (1..=budget).contains(&name.len()) && name.chars().all(is_safe)
}

/// D9
#[test]
fn f_041_a_safe_short_name_stays_as_it_is() {
    let exposed = expose(Some("alpha"), "get_Sum-2", caps::MERGED_NAME_CHARS);
    assert_eq!(exposed, Exposed { name: "alpha__get_Sum-2".into(), altered: false });
    assert_eq!(name(None, "a__b", caps::SINGLE_NAME_CHARS), "a__b");
}

#[test]
fn f_043_unsafe_names_get_a_stem_and_a_hash() {
    let got = expose_all(Some("alpha"), ["admin.list", "a/b", "get user", "取得"], caps::MERGED_NAME_CHARS);
    let names: Vec<_> = got.iter().map(|exposed| exposed.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "alpha__admin_list_871bc5cd",
            "alpha__a_b_c14cddc0",
            "alpha__get_user_d77d8fbc",
            "alpha__item_03ecfee0"
        ]
    );
    assert!(got.iter().all(|exposed| exposed.altered));
}

///
#[test]
fn names_over_the_budget_are_cut_and_stay_distinct() {
    let long = "list_all_repositories_of_an_organisation_by_topic";
    let [one, two] = [format!("{long}_1"), format!("{long}_2")];
    let got = expose_all(Some("github"), [one.as_str(), two.as_str()], caps::MERGED_NAME_CHARS);
    assert!(
        got.iter()
            .all(|exposed| exposed.name.starts_with("github__list_all_repositories_of") && exposed.altered)
    );
    assert_ne!(got[0].name, got[1].name);
    assert_eq!(name(None, &one, caps::SINGLE_NAME_CHARS), one);
}

/// TOOL-05, R-19
#[test]
fn f_042_an_alias_gives_way_to_a_tool_of_that_name_in_any_order() {
    let squatter = name(None, "a/b", 64);
    let first = expose_all(None, ["a/b", &squatter, "c"], 64);
    let second = expose_all(None, ["c", &squatter, "a/b"], 64);
    assert_eq!((&first[1].name, first[1].altered), (&squatter, false));
    assert_ne!(first[0].name, squatter);
    assert_eq!((&first[0], &first[1], &first[2]), (&second[2], &second[1], &second[0]));
}

#[test]
fn f_042_many_squatters_change_nothing() {
    let mut originals = vec!["a/b".to_owned()];
    for _ in 0..30 {
        let got = expose_all(None, originals.iter().map(String::as_str), 64);
        assert!(is_valid(&got[0].name, 64));
        originals.push(got[0].name.clone());
    }
    let got = expose_all(None, originals.iter().map(String::as_str), 64);
    let distinct: HashSet<_> = got.iter().map(|exposed| &exposed.name).collect();
    assert_eq!(distinct.len(), originals.len());
}

///
#[test]
fn namespaces_are_checked() {
    for good in ["a", "a1-b_c", "a--b", &"a".repeat(caps::NAMESPACE_CHARS)] {
        assert_eq!(check_namespace(good), Ok(()), "{good}");
    }
    let faults = [
        ("", NamespaceFault::Empty),
        ("1a", NamespaceFault::Start),
        ("_a", NamespaceFault::Start),
        ("aB", NamespaceFault::Character('B')),
        ("a+b", NamespaceFault::Character('+')),
        ("é", NamespaceFault::Character('é')),
        ("a__b", NamespaceFault::Separator),
        ("a_", NamespaceFault::Separator),
        (&"a".repeat(caps::NAMESPACE_CHARS + 1), NamespaceFault::TooLong),
    ];
    for (bad, fault) in faults {
        assert_eq!(check_namespace(bad), Err(fault), "{bad}");
    }
}

#[test]
fn entry_names_become_namespaces() {
    assert_eq!(namespace_of("github"), "github");
    assert_eq!(namespace_of("GitHub"), "github");
    assert_eq!(namespace_of("my.server"), "my-server-9661c51a");
    assert_eq!(namespace_of("取得"), "item-03ecfee0");
    assert_ne!(namespace_of("my server"), namespace_of("my/server"));
}

proptest! {
    /// F-043
    #[test]
    fn every_name_is_safe_within_its_budget(
        namespace in proptest::option::of(".{0,40}"), original in ".{0,140}", budget in caps::NAME_CHARS_MIN..=caps::NAME_CHARS_MAX,
    ) {
        let exposed = expose(namespace.as_deref(), &original, budget);
        prop_assert!(is_valid(&exposed.name, budget), "{}", exposed.name);
        prop_assert_eq!(&exposed, &expose(namespace.as_deref(), &original, budget));
        let plain = namespace.map_or_else(String::new, |namespace| namespace + SEPARATOR) + &original;
        prop_assert_eq!(exposed.altered, exposed.name != plain);
        if !original.is_empty() {
            prop_assert_eq!(exposed.altered, !is_valid(&plain, budget));
        }
    }

    /// TOOL-05
    #[test]
    fn distinct_originals_get_distinct_names_in_any_order(
        originals in proptest::collection::hash_set("[a-c./ _]{0,4}|.{0,6}", 0..40),
        namespace in proptest::option::of("[a-z]{1,30}"),
        budget in caps::NAME_CHARS_MIN..=caps::NAME_CHARS_MAX,
    ) {
        let originals: Vec<&str> = originals.iter().map(String::as_str).collect();
        let got = expose_all(namespace.as_deref(), originals.iter().copied(), budget);
        let distinct: HashSet<_> = got.iter().map(|exposed| &exposed.name).collect();
        prop_assert_eq!(distinct.len(), originals.len());
        prop_assert!(got.iter().all(|exposed| is_valid(&exposed.name, budget)));
        let mut backwards = expose_all(namespace.as_deref(), originals.iter().rev().copied(), budget);
        backwards.reverse();
        prop_assert_eq!(got, backwards);
    }

    /// D9: no two pairs of namespace and safe name look the same.
    #[test]
    fn names_of_two_upstreams_never_meet(
        one in "[a-c](_?[a-c-]){0,3}", two in "[a-c](_?[a-c-]){0,3}", a in "[a_-]{1,5}", b in "[a_-]{1,5}",
    ) {
        prop_assert_eq!((check_namespace(&one), check_namespace(&two)), (Ok(()), Ok(())));
        let same = name(Some(&one), &a, 46) == name(Some(&two), &b, 46);
        prop_assert_eq!(same, one == two && a == b);
    }

    #[test]
    fn every_entry_name_gives_a_namespace(entry in ".{0,50}|[a-zA-Z_ .-]{0,50}") {
        prop_assert_eq!(check_namespace(&namespace_of(&entry)), Ok(()));
    }
}
