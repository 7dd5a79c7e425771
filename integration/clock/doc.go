// Package clock tests that the proxy does not depend on the wall clock: the clock of the
// machine jumps a year forwards and a day backwards while kube-vmap runs, as clocks do
// that are set late or wrongly.
//
// All namespaces share one clock, so the test needs a machine of its own, as the
// environment variable KUBE_VMAP_OWN_MACHINE confirms. `make test-kernels` boots some.
package clock
