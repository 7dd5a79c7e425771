package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
)

// newAPI has Service shop/web, with labels that no pod has, and two pods of both families.
func newAPI(target intstr.IntOrString) *fake.Clientset {
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			Ports: []corev1.ServicePort{{Name: "http", TargetPort: target}, {Name: "dns", Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(53)}},
		},
	}
	lost := web.DeepCopy()
	lost.Name, lost.Spec.Selector = "lost", map[string]string{"app": "wbe"}
	objects := []runtime.Object{web, lost}
	for i, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: string(family), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: family,
		}
		for n, addresses := range map[string][2]string{"1": {"10.244.1.2", "fd00::1:2"}, "2": {"10.244.2.2", "fd00::2:2"}} {
			node := "node-" + n
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
				Addresses: addresses[i : i+1], NodeName: &node, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-" + n},
			})
		}
		objects = append(objects, s)
	}
	return fake.NewClientset(append(objects, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}}}},
	})...)
}

func TestFindingsNamePodsAndValues(t *testing.T) {
	both := []string{"10.244.1.2:8080", "10.244.2.2:8080", "[fd00::1:2]:8080", "[fd00::2:2]:8080"}
	of := func(hit, all int, named ...string) nodestatus.Args {
		return nodestatus.Args{Hit: hit, All: all, Named: named, NamedOf: hit, Number: 8081}
	}
	more := append([]string{"10.244.1.2:8080", "10.244.2.2:8080", "10.9.0.1:80", "10.9.0.2:80", "10.9.0.3:80", "10.9.0.4:80"}, both[2:]...)
	const podReady = "status.conditions[Ready] of the pod"
	const undeclared = "web-2 on node-2 (10.244.2.2:8080); no container of its pods declares that port, though a program may listen there; they have web 8080"
	http := nodestatus.Args{Hit: 3, Message: "http/TCP"}
	for _, tc := range []struct {
		service, reason, field string
		args                   nodestatus.Args
		endpoints              []string
		target                 string
		wantField, wantText    string
	}{
		{"web", nodestatus.ReasonNotReady, podReady, of(2, 3, both[:2]...), both, "1", podReady, "2 of 3 endpoints are not ready: web-1 on node-1 (10.244.1.2:8080), web-2 on node-2 (10.244.2.2:8080)"},
		{"web", nodestatus.ReasonDrained, "x", of(6, 7, more[:4]...), more, "1", "x", "have weight 0: web-1 on node-1 (10.244.1.2:8080), web-2 on node-2 (10.244.2.2:8080), 10.9.0.1:80, 10.9.0.2:80 and 2 more"},
		{"lost", nodestatus.ReasonNoEndpoints, nodestatus.FieldSelector, nodestatus.Args{}, nil, "1", "spec.selector: app=wbe", "refused: the selector matches no pod in namespace shop; pods there have app=web"},
		{"web", nodestatus.ReasonNoEndpoints, nodestatus.FieldSelector, nodestatus.Args{}, nil, "1", "spec.selector: app=web", "refused: the selector matches 1 pod, none of which has an address"},
		{"web", nodestatus.ReasonNoPort, nodestatus.FieldTargetPort, http, nil, "htpt", "spec.ports[].targetPort: htpt", "have none at all; no container of its pods declares a port of that name; they have web 8080"},
		{"web", nodestatus.ReasonRefuses, nodestatus.FieldTargetPort, of(2, 2, both[:2]...), both, "8081", "spec.ports[].targetPort: 8081", undeclared},
		{"gone", nodestatus.ReasonNoEndpoints, nodestatus.FieldSelector, nodestatus.Args{}, nil, "1", nodestatus.FieldSelector, "the selector matches no pod with an address"},
	} {
		f := findings.Finding{
			Object: "Service shop/" + tc.service, Namespace: "shop", Name: tc.service, Reason: tc.reason, Field: tc.field, Args: tc.args,
			Endpoints: tc.endpoints, Ports: []string{"http/TCP"}, Families: []string{"IPv4", "IPv6"},
		}
		var m findings.Merger
		m.Add("node-1", []findings.Finding{f})
		list := m.Sorted()
		err := namer{&resolve.Resolver{API: newAPI(intstr.Parse(tc.target))}}.add(t.Context(), list)
		if err != nil || list[0].Field != tc.wantField || !strings.HasSuffix(list[0].String(), tc.wantText) {
			t.Errorf("%s: %v\ngot  %s: %s\nwant %s: %s", tc.reason, err, list[0].Field, list[0].String(), tc.wantField, tc.wantText)
		}
	}
}

// TestPodsThatCannotBeReadAreNoFailure has a user who may not read EndpointSlices.
func TestPodsThatCannotBeReadAreNoFailure(t *testing.T) {
	api := newAPI(intstr.FromInt32(8080))
	api.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "endpointslices"}, "", nil)
	})
	f := finding(problem, nodestatus.ReasonNotReady, "1 of 1 is not ready: 10.244.1.2:8080")
	f.Endpoints = []string{"10.244.1.2:8080"}
	var m findings.Merger
	m.Add("node-1", []findings.Finding{f})
	list := m.Sorted()
	err := namer{&resolve.Resolver{API: api}}.add(t.Context(), list)
	if err == nil || !strings.Contains(err.Error(), "shop/web") || !strings.Contains(err.Error(), "deploy/kubectl") || list[0].Sentence() != f.Text {
		t.Errorf("%v: %s", err, list[0].Sentence())
	}
}
