// Package cluster holds the tests of kube-vmap against the real Kubernetes API:
// kube-apiserver on etcd, and the controllers that make EndpointSlices.
//
//	tests --> plane: etcd, kube-apiserver, kube-controller-manager
//	  |         ^ watch                     in a namespace of their own
//	  |         |
//	  |       kube-vmap on node-1, node-2   under the account of deploy/base
//	  |         | netlink
//	  |         v
//	  +-----> packets between pods, and truth: what the API's objects mean
//
// The packages below are what the tests are built on: plane (the parts and what can
// happen to them), objects (what users, kubelets and controllers do in the API),
// traffic (what clients do), daemon (a proxy's process), truth (what a rule set
// should be), and clustertest, which puts them together for a test.
//
// What a field of a Service or EndpointSlice means for packets is tested in integration/matrix,
// without an API.
//
// TestAbuse is what one tenant can do to others: a table of attacks, which are made,
// changed and deleted beside an honest tenant and another program that writes
// nf_tables, with a budget for each figure. With -v it prints the figures.
//
// It is a module of its own, so that what a control plane needs never reaches the
// proxy's. .ci/cluster builds the programs.
package cluster
