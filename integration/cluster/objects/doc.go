// Package objects makes and changes what a Service proxy looks at in an API, as
// users, kubelets and controllers would.
//
//	ns, err := objects.NewNamespace(ctx, p.Client, "shop")
//	svc, err := ns.CreateService(ctx, objects.Service("web", objects.Ports(80, 8080)...))
//	pod, err := ns.CreatePod(ctx, "web-1", "web", objects.At(lab.Node.Name, lab.Pods[0]))
//
// A Pod made here is Running and Ready at once: the package says so in place of
// the kubelet that is not there. The label [App] makes the connection: a Service
// selects the Pods whose app has its name, and the controller makes its
// EndpointSlices.
//
// A [Workload] is what a Deployment would be: Pods of one app that are scaled and
// rolled. [Fill] makes thousands of Services with slices of its own, without Pods
// and controllers.
package objects
