// Package sync brings what the world wants to what the kernel holds.
//
//	source ----[]Event----> Loop ----> model.ServiceMap ----> nft.Ruleset ----> kernel
//	manifests, API          one goroutine owns all of this
//
// A source reduces objects to model values as they arrive, so that nothing
// downstream knows a Kubernetes type. The loop collects the events that came
// while the kernel worked and turns them into one batch. A source's first burst
// is complete; before it nothing is programmed, and nothing is ever removed on
// the ground of a list that was not whole. [Manifests] reads a folder, package
// sync/cluster the API.
//
// Inside the package, the standard library's sync package would need another
// name; it is not used here, because one goroutine owns the state.
package sync
