// Package clock holds the test that the proxy does not mind what time it is: the
// clock of the machine jumps a year forwards and a day backwards while kube-vmap
// runs, as clocks do that are set late, or wrongly.
//
// There is one clock for all namespaces, so this needs a machine of its own, which
// says so by the environment variable KUBE_VMAP_OWN_MACHINE; `make test-kernels`
// boots some.
package clock
