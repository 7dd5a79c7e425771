// Package plane runs a Kubernetes control plane of real parts in the network
// namespace of a lab's host.
//
//	 test process        the host, e.g. outside                     a node
//	+------------+      +---------------------------------+      +-----------+
//	| Client     |------|--> kube-apiserver  192.0.2.100  |      |           |
//	| (dials     | lab  |       |   ^          :6443      | <----| kube-vmap |
//	| in the     |      |       v   |                     | wire |           |
//	| namespace) |      |     etcd  kube-controller-      |      |           |
//	|            |      |           manager               |      |           |
//	|  Relay ----|------|--> :6443                        | <- - | or by a   |
//	+------------+      +---------------------------------+      | relay     |
//	                                                             +-----------+
//
// There is no kubelet and no scheduler: tests create Pods and set their status (see package
// objects), and the controllers create EndpointSlices as in any cluster. All users are
// authorized by RBAC; [Plane.Client] and [Plane.Kubectl] are of group system:masters.
//
// The control plane can fail: the API server is killed and restarted
// ([Plane.KillAPIServer]), and does not listen for a while ([Relay.Down]).
//
// .ci/cluster builds the programs. Print [Plane.Logs] when a test fails. They end with this process,
// however it ends; the next [Start] removes temporary files of a killed process.
package plane
