//! Filters on arrays of up to four axes, of every real type, with the sums and the conversions of `scipy.ndimage`.
//!
//! | file | result at index i |
//! | --- | --- |
//! | [`correlate`] | `sum over taps t of weight[t] * input[i + delta[t]]` |
//! | [`mirrored`] | the same along one axis for symmetric and antisymmetric weights: half as many products |
//! | [`separable`] | both of two such sums along two axes, of `f64` and with few weights, in one launch |
//! | [`means`] | the mean of neighbouring elements along one axis, by running sums |
//!
//! [`tile`] copies elements to shared memory for the first three, and has their thread mapping. [`element`] converts
//! elements to sums and sums to results, [`sum`] adds, [`position`] is the border map, and [`params`] has the launch
//! parameters.
//!
//! # Bits
//! A sum of `f64` rounds each product and then each addition, in the order of the list of taps. There is no fused
//! multiply-add. So the results have the bits of the same sum on a CPU, and a NaN is a NaN.
//!
//! # Instances
//! The input's type and the type of the sums are compile-time constants, because each product reads an element. The
//! result's type is a run-time parameter, because a thread converts few results. Each instance is a module of its own.

pub mod correlate;
pub mod element;
pub mod means;
pub mod mirrored;
pub mod params;
pub mod position;
pub mod separable;
pub mod sum;
pub mod tile;

use cuda_std::prelude::*;

use self::params::ArrayParams;
use crate::abi::kernel::{Convergent, Kernel, OLDEST, Parameter};

/// The parameters of every kernel here: input, output, taps, and the launch parameters by value.
const PARAMETERS: [Parameter; 4] =
    [Parameter::POINTER, Parameter::POINTER, Parameter::POINTER, Parameter::value::<ArrayParams>()];

/// A kernel of this folder as a function of the host, for an executor to run.
pub type Function = unsafe fn(Global<u8>, GlobalMut<u8>, Global<u64>, ArrayParams);

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// [`correlate`].
    Correlate,
    /// [`mirrored`].
    Mirrored,
    /// [`separable`].
    Separable,
    /// [`means`].
    Means,
}

/// A kernel that can be launched.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    /// The symbol in the PTX. The module of the PTX that holds the kernel has the same name.
    pub symbol: &'static str,
    /// What it computes.
    pub task: Task,
    /// The type of the input's elements, as [`element::Value::NAME`] names it.
    pub element: &'static str,
    /// Whether the sums are of `f32`.
    pub is_f32: bool,
    /// The convergent instructions of the source.
    pub convergent: Convergent,
    /// The kernel as a function of the host, for an executor to run.
    #[cfg(not(target_arch = "nvptx64"))]
    pub function: Function,
}

impl Instance {
    /// The PTX module that holds the kernel.
    #[must_use]
    pub const fn module(&self) -> &'static str {
        self.symbol
    }

    /// The kernel as the PTX must hold it.
    #[must_use]
    pub const fn kernel(&self) -> Kernel {
        Kernel {
            symbol: self.symbol,
            module: self.module(),
            parameters: &PARAMETERS,
            compute_capability: OLDEST,
            launch_bounds: match self.task {
                Task::Correlate | Task::Mirrored => Some((tile::THREADS, tile::blocks_per_sm(self.is_f32))),
                Task::Separable => Some((separable::THREADS, separable::BLOCKS_PER_SM)),
                Task::Means => None,
            },
            convergent: self.convergent,
        }
    }
}

/// All kernels of this folder.
pub fn instances() -> impl Iterator<Item = &'static Instance> {
    [correlate::INSTANCES, mirrored::INSTANCES, separable::INSTANCES, means::INSTANCES]
        .into_iter()
        .flatten()
        .copied()
        .flatten()
}

/// The same, as the PTX must declare them.
pub fn kernels() -> impl Iterator<Item = Kernel> {
    instances().map(Instance::kernel)
}

/// The kernel for a task, a type of elements and a type of sums. None if there is no such kernel.
#[must_use]
pub fn find(task: Task, element: &str, is_f32: bool) -> Option<&'static Instance> {
    instances().find(|one| one.task == task && one.element == element && one.is_f32 == is_f32)
}

/// The kernel functions and the list of a file, from lists of types of elements and of sums.
macro_rules! type_instances {
    ($body:ident, $task:ident, $convergent:path: $($pattern:literal for T in $types:tt, A in $sums:tt;)+) => {
        $(::cuda_std::instantiate! { functions! { $body } $pattern for T in $types, A in $sums })+

        /// The kernels of this file, in groups.
        pub const INSTANCES: &[&[$crate::ndimage::Instance]] =
            &[$(::cuda_std::instantiate! { list! { $task, $convergent } $pattern for T in $types, A in $sums }),+];
    };
}
pub(crate) use type_instances;

/// One `#[kernel]` function for each row of `instantiate!`.
macro_rules! functions {
    ({ $body:ident } $(($symbol:ident, T = $type:ident, A = $sum:ident))*) => {$(
        /// An instance for one type of elements and one type of sums.
        ///
        /// # Safety
        /// The conditions of the generic function of this file.
        #[kernel(no_launcher)]
        pub unsafe fn $symbol(
            input: Global<u8>,
            output: GlobalMut<u8>,
            taps: Global<u64>,
            params: $crate::ndimage::params::ArrayParams,
        ) {
            // SAFETY: the conditions of this function are those of the body.
            unsafe { $body::<$type, $sum>(input, output, taps, params) }
        }
    )*};
}
pub(crate) use functions;

/// One [`Instance`] for each row of `instantiate!`.
macro_rules! list {
    ({ $task:ident, $convergent:path } $(($symbol:ident, T = $type:ident, A = $sum:ident))*) => {
        &[$($crate::ndimage::Instance {
            symbol: stringify!($symbol),
            task: $crate::ndimage::Task::$task,
            element: <$type as $crate::ndimage::element::Value>::NAME,
            is_f32: size_of::<$sum>() == 4,
            convergent: $convergent,
            #[cfg(not(target_arch = "nvptx64"))]
            function: $symbol,
        }),*]
    };
}
pub(crate) use list;

#[cfg(test)]
mod tests {
    use super::*;

    /// What a symbol says is what the kernel is, and each one is found.
    #[test]
    fn symbols_say_what_their_kernels_are() {
        extern crate std;
        for one in instances() {
            let task = match one.task {
                Task::Correlate => "correlate",
                Task::Mirrored => "mirrored",
                Task::Separable => "separable",
                Task::Means => "means",
            };
            let sum = if one.is_f32 { "f32" } else { "f64" };
            assert_eq!(one.symbol, std::format!("ndimage_{task}_{}_{sum}", one.element));
            assert_eq!(find(one.task, one.element, one.is_f32).map(|found| found.symbol), Some(one.symbol));
        }
        assert_eq!(kernels().count(), 11 + 11 + 1 + 10);
        assert!(find(Task::Means, "f32", true).is_none() && find(Task::Correlate, "u8", true).is_none());
    }
}
