//! Numbers for the lines of kernels, so that a record of an access can hold one.

use std::cell::Cell;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// The number of a line of a kernel.
pub(crate) type Site = u16;

/// The most numbers that fit the records. All further lines share the last one.
const MOST: usize = (1 << 12) - 1;

/// All lines that this process has numbered. A kernel has a few dozen.
static SITES: Mutex<Vec<&'static Location<'static>>> = Mutex::new(Vec::new());

thread_local! {
    /// A cache of the last lines that this thread has looked up, by address.
    static KNOWN: [Cell<(usize, Site)>; 64] = const { [const { Cell::new((0, 0)) }; 64] };
}

/// The number of a line.
#[inline]
pub(crate) fn number(location: &'static Location<'static>) -> Site {
    let address = std::ptr::from_ref(location).addr();
    // A `Location` is static data of 24 bytes; the quotient by 8 spreads them over the table.
    let slot = (address / 8) % 64;
    KNOWN.with(|known| {
        if known[slot].get().0 != address {
            known[slot].set((address, look_up(location)));
        }
        known[slot].get().1
    })
}

/// The line with this number.
pub(crate) fn location(site: Site) -> Option<&'static Location<'static>> {
    SITES.lock().unwrap_or_else(PoisonError::into_inner).get(usize::from(site)).copied()
}

/// Finds or adds a line. A line may have several `Location`s, one per generic instance; they share a number.
fn look_up(location: &'static Location<'static>) -> Site {
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    let index = sites.iter().position(|&known| known == location).unwrap_or_else(|| {
        if sites.len() < MOST {
            sites.push(location);
        }
        sites.len() - 1
    });
    index as Site
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_its_number() {
        let (here, there) = (Location::caller(), Location::caller());
        assert_eq!(number(here), number(here));
        assert_ne!(number(here), number(there));
        assert_eq!(location(number(there)), Some(there));
    }
}
