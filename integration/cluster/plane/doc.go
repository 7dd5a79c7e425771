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
// There is no kubelet and no scheduler: who uses the plane makes Pods and says of
// what state they are (see package objects), and the controllers make
// EndpointSlices of them as in any cluster. Everybody is authorized by RBAC;
// [Plane.Config] and [Plane.Kubectl] are of group system:masters.
//
// What can happen to a control plane can happen here: the API server is killed and
// started again ([Plane.KillAPIServer]), etcd is compacted ([Plane.Compact]), and
// connections break ([Relay]).
//
// The programs are those that .ci/cluster builds. They write to files; [Plane.Logs]
// is what to print when something fails. They die with this process, however it
// ends; what a killed process leaves in the folder for temporary files, the next
// [Start] removes.
package plane
