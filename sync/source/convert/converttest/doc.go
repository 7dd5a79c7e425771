// Package converttest helps to test conversions of Kubernetes objects: a [Draw] makes
// good and bad objects from the bytes of a fuzzer, and checks find out whether a
// conversion is well formed, and whether it used or reported every part of its object.
package converttest
