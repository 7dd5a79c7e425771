// Package kerneltest has a kernel without a kernel, for tests of what is built
// on package kernel: [Kernel], and [Faulty], which makes any kernel fail.
//
// The fake reads the bytes that would go to nf_tables and keeps its rules about
// objects and what refers to them:
//
//   - A batch is applied whole or not at all. Each message sees what those
//     before it did.
//   - What a message names must exist (ENOENT). What it adds may exist already
//     if it is the same; an element that carries something else, and an interval
//     that overlaps another, may not (EEXIST).
//   - A chain may not go while a rule of another chain, the verdict map of one,
//     or an element leads to it; nor a set while a rule reads it (EBUSY).
//   - A set takes no more elements than its size (ENFILE).
//   - Nothing may lead to a base chain (EOPNOTSUPP).
//
// It does not know what expressions mean. It finds the sets and chains they name
// and believes the rest: a rule that the kernel refuses for its syntax, for the
// hook it would run under, or because chains run in a circle or too deep, passes
// here. Nor does it know other tables, nor permissions. Whether it is right in
// what it does know is tested against the real one, in integration/fake.
package kerneltest
