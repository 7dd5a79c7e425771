// Package kerneltest is test support for users of package kernel: a fake [Kernel], and
// [Faulty], which makes any kernel fail.
//
// The fake keeps the kernel's rules about objects and references:
//
//   - A batch is applied whole or not at all. Each change sees the effects of those before
//     it.
//   - Objects that a change refers to must exist (ENOENT). Objects that it adds may exist
//     already; an element with another value and an overlapping interval may not (EEXIST).
//   - A chain cannot be deleted while a rule of another chain, its verdict map, or an element
//     jumps to it; nor a set while a rule uses it (EBUSY).
//   - A set takes no more elements than its size (ENFILE).
//   - Nothing may jump to a base chain (EOPNOTSUPP).
//
// Expressions are not evaluated, only the sets and chains that they name. So rules pass here
// that the kernel refuses for their syntax, for the hook they would run under, or because
// chains form a loop or are nested too deep. Batches are encoded, but the bytes are not read.
// Other tables and permissions do not exist. The rules above are tested against the real
// kernel in integration/fake.
package kerneltest
