// Package clustertest gives tests a cluster: a control plane (package plane), the
// nodes and pods of a lab, and proxies on the nodes under the account that
// deploy/base gives them.
//
//	func TestMain(m *testing.M) { clustertest.Main(m) }
//
//	func TestX(t *testing.T) {
//		c := clustertest.New(t, lab.Options{Pods: 2, RemotePods: 1})
//		ns := c.Namespace(t)
//		...
//		c.Proxy(t, c.Lab.Node).AwaitTruth(t)
//
// [New] gives each test a lab of its own and all tests of a package the same
// plane: objects of all tests are in the API, in namespaces and nodes of their
// own. A test that kills parts of the plane takes one for itself ([Alone]).
package clustertest
