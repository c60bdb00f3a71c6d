//! A CUDA driver library for tests. It needs no GPU, fails on request, and reports misuse.
//!
//! The library exports the `cu…` functions that `cust`, `cuda_driver`'s users and the host's GPU backend call. A test
//! puts it into the loader's path as `libcuda.so.1`, or opens it with `cuda_driver::load_from`. No product uses it.
//!
//! # Like the real driver
//! * Contexts: a stack per thread, and a primary context with a reference count. Its release frees all its objects.
//! * Streams: ordered queues, each with a thread of its own. Asynchronous work completes late and in that thread.
//! * Page-locked memory: copies from and to it are asynchronous. The device accesses it at the host's address.
//! * Pageable memory: a copy from it reads it before the call returns, and a copy to it returns when it is done. With
//!   `pageable=late` both are asynchronous, as on devices that share the host's page tables.
//! * The legacy default stream is ordered with blocking streams, and not with those of the flag `NON_BLOCKING`. Its use
//!   fails with 906 while a blocking stream is captured. The default stream of a thread is a blocking stream.
//! * A synchronous memset is asynchronous to the host. So is a synchronous copy from pageable memory once it has read
//!   the memory.
//! * `cuCtxSynchronize` fails with 900 while a stream of the context is captured.
//! * Events, graphs by stream capture or node by node, modules from PTX, constant memory per module, functions and
//!   their attributes.
//! * A failure of a kernel appears at the next synchronisation. Every later call returns the same code.
//! * Freeing memory waits for the work that was enqueued before.
//!
//! # Unlike the real driver
//! * Device addresses lie beyond the address space of the host. A host pointer is never taken for a device pointer.
//! * Work starts as late as possible: when a thread waits for it, or when its delay is over. Nothing overlaps.
//! * Nothing orders work in the legacy default stream and work in a non-blocking stream. If two such work items use the
//!   same memory and run in another order than that of their calls, they are reported.
//! * Kernels run in [`cuda_emulator`]. Only the declarations of the PTX are read. `fma_rate`, which writes nothing,
//!   does not run. The driver knows the kernels of [`kernels_gpu::registry`] and those that a test has added (module
//!   `foreign`). It refuses all others.
//! * A synchronising call that fails on request waits first. A call that frees or destroys does so first.
//! * Once the device is lost even `cuCtxSetCurrent` fails.
//!
//! # Control
//! The module `settings` lists the settings. A process reads them from the variable `FAKE_CUDA`. A test in the same
//! process sets them by the functions of the module `control`, which it finds in the library by name. The module
//! `counts` describes the report. The module `nvml` has functions of NVML, for programs that read clocks.

#[macro_use]
mod driver;

mod code;
mod context;
mod control;
mod copy;
mod counts;
mod device;
mod event;
mod faults;
mod foreign;
mod graph;
mod kernels;
mod launch;
mod lent;
mod memory;
mod module;
mod nvml;
mod order;
mod page_locked;
mod ptx;
mod settings;
mod stream;
mod table;
mod windows;
mod work;
