//! The instructions `atom`, `ld`, `st` and `fence` with an order and a scope.
//!
//! PTX writes order and scope into the opcode, so each pair has an instruction of its own. Both are constants where
//! these functions are inlined, and one instruction remains.

use super::{Ordering, Scope};

/// Calls `$instruction!` with the text of order and scope. The last order of the list stands for all others.
macro_rules! by_order_and_scope {
    ($order:ident, $scope:ident, [$($pattern:pat => $name:literal),*], $instruction:ident! $rest:tt) => {
        match $order {
            $($pattern => match $scope {
                Scope::Block => $instruction!(concat!($name, ".cta"), $rest),
                Scope::Device => $instruction!(concat!($name, ".gpu"), $rest),
                Scope::System => $instruction!(concat!($name, ".sys"), $rest),
            },)*
        }
    };
}

/// One instruction in the memory `M`: `$opcode` with order, scope, state space and `$operation`, then its operands.
///
/// The assembly may read and write memory, so that the compiler moves no access across it.
macro_rules! in_memory {
    ($semantics:expr, ($memory:ident, $address:ident, $opcode:literal, $operation:expr, $before:literal, $after:literal,
        [$($operand:tt)*])) => {
        if <$memory as $crate::atomic::sealed::Memory>::SHARED {
            core::arch::asm!(
                concat!($opcode, ".", $semantics, ".shared.", $operation, " ", $before, "[{at}]", $after, ";"),
                at = in(reg32) $address as u32, $($operand)*,
                options(nostack, preserves_flags),
            )
        } else {
            core::arch::asm!(
                "{{ .reg .b64 at; cvta.to.global.u64 at, {at};",
                concat!($opcode, ".", $semantics, ".global.", $operation, " ", $before, "[at]", $after, "; }}"),
                at = in(reg64) $address, $($operand)*,
                options(nostack, preserves_flags),
            )
        }
    };
}

/// `atom` with one value.
macro_rules! update {
    ($old:ident, $value:ident, $address:ident, $order:ident, $scope:ident, $memory:ident, $class:ident,
        $operation:expr) => {
        by_order_and_scope!(
            $order,
            $scope,
            [
                Ordering::Relaxed => "relaxed",
                Ordering::Acquire => "acquire",
                Ordering::Release => "release",
                _ => "acq_rel"
            ],
            in_memory!($memory, $address, "atom", $operation, "{old}, ", ", {value}",
                [old = out($class) $old, value = in($class) $value])
        )
    };
}

/// `atom.cas`.
macro_rules! compare_exchange {
    ($old:ident, $current:ident, $new:ident, $address:ident, $order:ident, $scope:ident, $memory:ident, $class:ident,
        $bits:literal) => {
        by_order_and_scope!(
            $order,
            $scope,
            [
                Ordering::Relaxed => "relaxed",
                Ordering::Acquire => "acquire",
                Ordering::Release => "release",
                _ => "acq_rel"
            ],
            in_memory!($memory, $address, "atom", concat!("cas.", $bits), "{old}, ", ", {current}, {new}",
                [old = out($class) $old, current = in($class) $current, new = in($class) $new])
        )
    };
}

/// `ld.relaxed` or `ld.acquire`.
macro_rules! load {
    ($value:ident, $address:ident, $order:ident, $scope:ident, $memory:ident, $class:ident, $bits:literal) => {
        by_order_and_scope!(
            $order,
            $scope,
            [Ordering::Relaxed => "relaxed", _ => "acquire"],
            in_memory!($memory, $address, "ld", $bits, "{value}, ", "", [value = out($class) $value])
        )
    };
}

/// `st.relaxed` or `st.release`.
macro_rules! store {
    ($value:ident, $address:ident, $order:ident, $scope:ident, $memory:ident, $class:ident, $bits:literal) => {
        by_order_and_scope!(
            $order,
            $scope,
            [Ordering::Relaxed => "relaxed", _ => "release"],
            in_memory!($memory, $address, "st", $bits, "", ", {value}", [value = in($class) $value])
        )
    };
}

pub(super) use {by_order_and_scope, compare_exchange, in_memory, load, store, update};

/// One `fence`.
macro_rules! fence {
    ($semantics:expr, ()) => {
        // SAFETY: a fence has no precondition. It is assembly that may access memory, so that the compiler moves no
        // access across it.
        unsafe { core::arch::asm!(concat!("fence.", $semantics, ";"), options(nostack, preserves_flags)) }
    };
}

/// The fence before a sequentially consistent operation.
#[inline(always)]
pub(super) fn fence_before(order: Ordering, scope: Scope) {
    if order == Ordering::SeqCst {
        fence(order, scope);
    }
}

#[inline(always)]
pub(super) fn fence(order: Ordering, scope: Scope) {
    if order == Ordering::Relaxed {
        return;
    }
    by_order_and_scope!(order, scope, [Ordering::SeqCst => "sc", _ => "acq_rel"], fence!());
}
