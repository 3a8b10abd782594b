//! ISA-L, where the distribution has installed it (`apt install libisal2`): the neighbour that
//! every kernel is checked and measured against. Found at run time, so nothing depends on it.

use libloading::{Library, Symbol};
use std::marker::PhantomData;

type InitTables = unsafe extern "C" fn(i32, i32, *const u8, *mut u8);
type EncodeData = unsafe extern "C" fn(i32, i32, i32, *const u8, *const *const u8, *const *mut u8);

pub struct Isal {
    init_tables: Symbol<'static, InitTables>,
    encode_data: Symbol<'static, EncodeData>,
}

/// A sum that is ready to run: tables, and the buffers that it reads and writes.
pub struct Encoding<'a> {
    isal: &'a Isal,
    tables: Vec<u8>,
    froms: Vec<*const u8>,
    tos: Vec<*mut u8>,
    bytes: usize,
    buffers: PhantomData<(&'a [u8], &'a mut [u8])>,
}

impl Isal {
    /// The library, or `None` and a loud complaint.
    pub fn load() -> Option<Isal> {
        let found = ["libisal.so.2", "libisal.so"].iter().find_map(|name| {
            // SAFETY: ISA-L's initialisation only asks the processor for its instructions.
            unsafe { Library::new(name) }.ok()
        });
        let Some(library) = found else {
            eprintln!("SKIPPED: NO ISA-L ON THIS MACHINE (apt install libisal2): NOT COMPARED");
            return None;
        };
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: these are the types that erasure_code.h declares since version 2.
        unsafe {
            Some(Isal {
                init_tables: library.get(b"ec_init_tables").expect("a function of ISA-L"),
                encode_data: library.get(b"ec_encode_data").expect("a function of ISA-L"),
            })
        }
    }

    /// Prepares outputs = rows * sources.
    pub fn prepare<'a>(
        &'a self,
        rows: &[Vec<u8>],
        sources: &[&'a [u8]],
        outputs: Vec<&'a mut [u8]>,
    ) -> Encoding<'a> {
        let bytes = sources[0].len();
        assert!(sources.iter().all(|source| source.len() == bytes));
        assert!(outputs.iter().all(|output| output.len() == bytes));
        assert_eq!(rows.len(), outputs.len());
        assert!(rows.iter().all(|row| row.len() == sources.len()));
        assert!(bytes >= 64, "some of ISA-L's kernels compute nothing for shorter regions");
        let mut tables = vec![0; 32 * sources.len() * rows.len()];
        let coefficients = rows.concat();
        // SAFETY: ISA-L reads one byte and writes 32 for each coefficient.
        unsafe {
            (self.init_tables)(
                sources.len() as i32,
                rows.len() as i32,
                coefficients.as_ptr(),
                tables.as_mut_ptr(),
            );
        }
        Encoding {
            isal: self,
            tables,
            froms: sources.iter().map(|source| source.as_ptr()).collect(),
            tos: outputs.into_iter().map(|output| output.as_mut_ptr()).collect(),
            bytes,
            buffers: PhantomData,
        }
    }
}

impl Encoding<'_> {
    pub fn run(&mut self) {
        // SAFETY: as many pointers as announced, each to as many bytes as announced, borrowed for
        // as long as `self` lives.
        unsafe {
            (self.isal.encode_data)(
                self.bytes as i32,
                self.froms.len() as i32,
                self.tos.len() as i32,
                self.tables.as_ptr(),
                self.froms.as_ptr(),
                self.tos.as_ptr(),
            );
        }
    }
}
