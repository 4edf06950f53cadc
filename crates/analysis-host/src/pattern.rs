//! Patterns of names: `*` stands for any text, `?` for one character.

/// Whether a name matches one of the patterns.
pub(crate) fn any_matches(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

/// Linear in the name for patterns of one star, and never worse than pattern length times name length.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Where the last star stood, and how much of the name it has eaten.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, eaten)) => {
                    star = Some((at, eaten + 1));
                    p = at + 1;
                    n = eaten + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "blocks.0.weight"),
            ("blocks.*.weight", "blocks.11.mlp.weight"),
            ("block?.w", "block7.w"),
            ("a*b*c", "axxbxxbc"),
            ("", ""),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "a"), ("a", ""), ("?", ""), ("blocks.*.weight", "blocks.0.bias"), ("a*b", "ac")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "*a".repeat(30) + "b";
        assert!(!matches(&pattern, &"a".repeat(2000)));
    }
}
