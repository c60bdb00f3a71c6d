//! The declarations of a module's PTX: target, entries, arrays in constant and global memory.
//!
//! Instructions are not parsed.

/// An array that the host can set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    pub(crate) is_constant: bool,
}

/// The declarations of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    /// The compute capability, major and minor.
    pub(crate) target: (u32, u32),
    pub(crate) entries: Vec<String>,
    pub(crate) arrays: Vec<Array>,
}

/// Parses PTX. None if the text is not PTX.
pub(crate) fn parse(text: &str) -> Option<Declared> {
    let mut declared = Declared::default();
    let (mut has_version, mut depth) = (false, 0_i64);
    for line in text.lines() {
        let line = line.trim();
        if depth == 0 {
            if let Some(rest) = line.strip_prefix(".version ") {
                has_version = rest.trim().split_once('.')?.0.parse::<u32>().is_ok();
            } else if let Some(rest) = line.strip_prefix(".target ") {
                let number = rest.trim().strip_prefix("sm_")?;
                let number: u32 = number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
                declared.target = (number / 10, number % 10);
            } else if let Some((_, rest)) = line.split_once(".entry ") {
                declared.entries.push(name(rest)?.to_owned());
            } else if line.ends_with("];") {
                let is_constant = line.contains(".const ");
                if is_constant || line.contains(".global ") {
                    declared.arrays.push(array(line, is_constant)?);
                }
            }
        }
        depth += line.matches('{').count() as i64 - line.matches('}').count() as i64;
    }
    (has_version && declared.target.0 > 0 && depth == 0).then_some(declared)
}

/// The name at the start of a text.
fn name(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$')).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// An array from its declaration, such as `.visible .const .align 16 .b8 MASK[65536];`.
fn array(line: &str, is_constant: bool) -> Option<Array> {
    let (before, length) = line.strip_suffix("];")?.rsplit_once('[')?;
    let mut words = before.split_whitespace().rev();
    let (name, kind) = (words.next()?, words.next()?);
    let bits: usize = kind.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    Some(Array { name: name.to_owned(), bytes: length.parse::<usize>().ok()?.checked_mul(bits / 8)?, is_constant })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found() {
        let text = ".version 6.0\n.target sm_70\n.address_size 64\n.visible .const .align 16 .b8 MASK[65536];\n\
            .visible .entry one(\n\t.param .u64 one_param_0\n)\n{\n\tret;\n}\n.visible .entry two(\n)\n{\n\tret;\n}\n";
        let declared = parse(text).unwrap();
        assert_eq!(declared.target, (7, 0));
        assert_eq!(declared.entries, ["one", "two"]);
        assert_eq!(declared.arrays, [Array { name: "MASK".into(), bytes: 65_536, is_constant: true }]);
    }

    #[test]
    fn what_is_no_ptx_is_refused() {
        for text in ["", "hello", ".version 6.0\n", ".target sm_70\n", ".version 6.0\n.target sm_70\n.entry x(\n)\n{\n"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
