// Package kerneltest is test support for users of package kernel: a fake [Kernel], and
// [Faulty], which makes any kernel fail.
//
// The fake decodes the bytes that would go to nf_tables and keeps the kernel's rules about
// objects and references:
//
//   - A batch is applied whole or not at all. Each message sees the effects of those before
//     it.
//   - What a message names must exist (ENOENT). What it adds may exist already if it is the
//     same; an element with another value and an overlapping interval may not (EEXIST).
//   - A chain cannot be deleted while a rule of another chain, its verdict map, or an element
//     leads to it; nor a set while a rule uses it (EBUSY).
//   - A set takes no more elements than its size (ENFILE).
//   - Nothing may lead to a base chain (EOPNOTSUPP).
//
// Expressions are not evaluated, only the sets and chains that they name. So rules pass here
// that the kernel refuses for their syntax, for the hook they would run under, or because
// chains form a loop or are nested too deep. There are no other tables, and no permissions.
// The rules above are tested against the real kernel in integration/fake.
package kerneltest
