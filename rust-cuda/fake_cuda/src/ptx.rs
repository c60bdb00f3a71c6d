//! The declarations of a module's PTX: target, entries with their shared memory, arrays in constant and global memory.
//!
//! Instructions are searched for the names of shared arrays, and not parsed.

/// An array that the host can set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    pub(crate) is_constant: bool,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The bytes of the shared arrays of a fixed length that it names.
    pub(crate) shared_bytes: usize,
}

/// The declarations of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    /// The compute capability, major and minor.
    pub(crate) target: (u32, u32),
    pub(crate) entries: Vec<Entry>,
    pub(crate) arrays: Vec<Array>,
}

/// Parses PTX. None if the text is not PTX.
pub(crate) fn parse(text: &str) -> Option<Declared> {
    let mut declared = Declared::default();
    let (mut has_version, mut depth) = (false, 0_i64);
    // The shared arrays that the last entry has not named so far, and all of them.
    let (mut unnamed, mut shared) = (Vec::new(), Vec::<Array>::new());
    for line in text.lines() {
        let line = line.trim();
        if depth > 0 {
            let names = |array: &Array| line.split(|c: char| !is_of_name(c)).any(|word| word == array.name);
            let entry = declared.entries.last_mut();
            let bytes: usize = unnamed.extract_if(.., |array| names(array)).map(|array: Array| array.bytes).sum();
            if let Some(entry) = entry {
                entry.shared_bytes += bytes;
            }
        } else {
            if let Some(rest) = line.strip_prefix(".version ") {
                has_version = rest.trim().split_once('.')?.0.parse::<u32>().is_ok();
            } else if let Some(rest) = line.strip_prefix(".target ") {
                let number = rest.trim().strip_prefix("sm_")?;
                let number: u32 = number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
                declared.target = (number / 10, number % 10);
            } else if let Some((_, rest)) = line.split_once(".entry ") {
                declared.entries.push(Entry { name: name(rest)?.to_owned(), shared_bytes: 0 });
                unnamed.clone_from(&shared);
            } else if line.ends_with("];") {
                let is_constant = line.contains(".const ");
                if is_constant || line.contains(".global ") {
                    declared.arrays.push(array(line, is_constant)?);
                } else if line.contains(".shared ") && !line.contains(".extern ") {
                    shared.push(array(line, is_constant)?);
                }
            }
        }
        depth += line.matches('{').count() as i64 - line.matches('}').count() as i64;
    }
    (has_version && declared.target.0 > 0 && depth == 0).then_some(declared)
}

/// The name at the start of a text.
fn name(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !is_of_name(c)).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// Whether a name may have this character.
fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
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
            .extern .shared .align 16 .b8 dynamic[];\n\
            .shared .align 16 .b8 tile[400];\n.shared .align 16 .b8 tile_2[20];\n\
            .visible .entry one(\n\t.param .u64 one_param_0\n)\n{\n\tret;\n}\n\
            .visible .entry two(\n)\n{\n\tmov.u32 %r1, tile_2;\n\tmov.u32 %r2, tile_2;\n\tret;\n}\n";
        let declared = parse(text).unwrap();
        assert_eq!(declared.target, (7, 0));
        let entry = |name: &str, shared_bytes| Entry { name: name.to_owned(), shared_bytes };
        assert_eq!(declared.entries, [entry("one", 0), entry("two", 20)]);
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
