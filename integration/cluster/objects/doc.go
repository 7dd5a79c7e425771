// Package objects creates and changes the objects that a Service proxy reads, as users,
// kubelets and controllers would.
//
//	ns, err := objects.NewNamespace(ctx, p.Client, "shop")
//	svc, err := ns.CreateService(ctx, objects.Service("web", objects.Ports(80, 8080)...))
//	pod, err := ns.CreatePod(ctx, "web-1", "web", objects.At(lab.Node.Name, lab.Pods[0]))
//
// A Pod is Running and Ready immediately: the package sets its status in place of a
// kubelet. A Service selects the Pods whose label [App] has its name, and the controller
// creates its EndpointSlices.
//
// A [Workload] is like a Deployment: Pods of one app that are scaled and rolled. [Fill]
// creates thousands of Services with slices of its own, without Pods and controllers.
package objects
