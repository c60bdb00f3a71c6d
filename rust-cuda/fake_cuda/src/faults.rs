//! Failures on request: the Nth call of a function, or of any function, fails with a code.

use crate::code::Code;

/// The effect of a failure in addition to its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Only the call fails.
    Once,
    /// The device is lost: pending work is abandoned, and every later call fails with the same code.
    Lost,
    /// The call succeeds. Its work fails when it runs, which loses the device.
    Late,
}

/// A requested failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The function. None for any that is not a query.
    function: Option<String>,
    /// The number of the call, from 1 on.
    call: u64,
    pub(crate) code: Code,
    pub(crate) effect: Effect,
    /// Whether later calls fail as well.
    repeats: bool,
    /// The number of calls so far.
    seen: u64,
}

impl Fault {
    /// Parses `FUNCTION:CALL:CODE[:once|always|lost|late]`. `*` is any function that is not [a query](is_query).
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("a fault is FUNCTION:CALL:CODE[:once|always|lost|late], not \"{text}\"");
        let parts: Vec<&str> = text.split(':').collect();
        let (function, call, code, effect) = match parts[..] {
            [function, call, code] => (function, call, code, "once"),
            [function, call, code, effect] => (function, call, code, effect),
            _ => return Err(wrong()),
        };
        let call = call.parse().ok().filter(|&call| call > 0).ok_or_else(wrong)?;
        let code = code.parse().map(Code).ok().filter(|code| code.is_known() && code.0 != 0).ok_or_else(wrong)?;
        let (effect, repeats) = match effect {
            "once" => (Effect::Once, false),
            "always" => (Effect::Once, true),
            "lost" => (Effect::Lost, false),
            "late" => (Effect::Late, false),
            _ => return Err(wrong()),
        };
        Ok(Self { function: (function != "*").then(|| function.to_owned()), call, code, effect, repeats, seen: 0 })
    }

    /// Counts a call. Returns whether it fails.
    pub(crate) fn strikes(&mut self, function: &str) -> bool {
        let is_concerned = self.function.as_ref().map_or(!is_query(function), |wanted| wanted == function);
        if !is_concerned {
            return false;
        }
        self.seen += 1;
        self.seen == self.call || self.repeats && self.seen > self.call
    }
}

/// Whether a function asks how far the device has come. The number of such calls differs from run to run. If they
/// counted, the Nth call of any function would be another one in each run.
pub(crate) fn is_query(function: &str) -> bool {
    matches!(function, "cuEventQuery" | "cuStreamQuery")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_at_its_call() {
        let mut fault = Fault::parse("cuMemAlloc_v2:2:2").unwrap();
        let strikes = ["cuMemAlloc_v2", "cuInit", "cuMemAlloc_v2", "cuMemAlloc_v2"].map(|name| fault.strikes(name));
        assert_eq!(strikes, [false, false, true, false]);
        let mut fault = Fault::parse("*:2:719:always").unwrap();
        assert_eq!(["a", "cuEventQuery", "b", "c"].map(|name| fault.strikes(name)), [false, false, true, true]);
        let mut fault = Fault::parse("cuEventQuery:1:719").unwrap();
        assert!(fault.strikes("cuEventQuery"));
    }

    #[test]
    fn what_is_no_fault_is_refused() {
        for text in ["", "cuInit", "cuInit:0:2", "cuInit:1:0", "cuInit:1:12345", "cuInit:1:2:sometimes", "a:1:2:once:x"]
        {
            assert!(Fault::parse(text).is_err(), "{text}");
        }
    }
}
