//! The word that was probably meant.

/// The candidate closest to a word, if one is close enough to be meant.
pub(in crate::config) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let folded = fold(word);
    candidates
        .into_iter()
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&folded, &fold(candidate));
            (distance, candidate)
        })
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).clamp(1, 3))
        .map(|(_, candidate)| candidate)
}

/// Spelling variants that are the same word: `allow_anonymous`, `allow-anonymous`, `AllowAnonymous`.
fn fold(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let keys = ["listen", "admin", "allowAnonymous", "http"];
        for (word, meant) in [
            ("listn", Some("listen")),
            ("Listen", Some("listen")),
            ("allow_anonymous", Some("allowAnonymous")),
            ("allowAnonimus", Some("allowAnonymous")),
            ("htpp", Some("http")),
            ("tenants", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, keys), meant, "{word}");
        }
    }
}
