package cluster

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"kube-vmap/sync"
)

func TestStringsAreShared(t *testing.T) {
	convert := sliceConverter()
	names := map[string]*byte{}
	for i := range 3 {
		it, err := convert(decoded(i))
		if err != nil {
			t.Fatal(err)
		}
		slice := it.value.(sync.SetSlice).Slice
		e := slice.Endpoints[0]
		for _, name := range []string{
			slice.Name.Namespace, slice.Service.Namespace, slice.Ports[0].Name, e.Node, string(e.ZoneHints), string(e.NodeHints),
		} {
			if known := names[name]; known != nil && known != unsafe.StringData(name) {
				t.Errorf("%q is not shared", name)
			}
			names[name] = unsafe.StringData(name)
		}
	}
}

// decoded returns a slice that shares no strings with others, as after decoding.
func decoded(i int) *discoveryv1.EndpointSlice {
	own := func(s string) string { return string([]byte(s)) }
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: own("shop"), Name: fmt.Sprintf("web-%d", i), Labels: map[string]string{discoveryv1.LabelServiceName: own("web")},
		},
		AddressType: discoveryv1.AddressTypeIPv6,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(own("http")), Port: ptr.To(int32(80))}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"fd00::1"}, NodeName: ptr.To(own("node-1.example.com")),
			Hints: &discoveryv1.EndpointHints{
				ForZones: []discoveryv1.ForZone{{Name: own("zone-2")}, {Name: own("zone-1")}},
				ForNodes: []discoveryv1.ForNode{{Name: own("node-2.example.com")}},
			},
		}},
	}
}

// TestOwnDecoderIsUsed decodes a slice and a list of one, in protobuf, as the API server sends them.
func TestOwnDecoderIsUsed(t *testing.T) {
	c := newCodec(discoveryv1.SchemeGroupVersion, &store{kind: "EndpointSlice", convert: sliceConverter()})
	for _, o := range []runtime.Object{decoded(0), &discoveryv1.EndpointSliceList{Items: []discoveryv1.EndpointSlice{*decoded(0)}}} {
		for _, info := range c.SupportedMediaTypes() {
			if info.MediaType != runtime.ContentTypeProtobuf {
				continue
			}
			var message bytes.Buffer
			encoder := scheme.Codecs.EncoderForVersion(info.Serializer, discoveryv1.SchemeGroupVersion)
			if err := encoder.Encode(o, &message); err != nil {
				t.Fatal(err)
			}
			got, _, err := info.Serializer.Decode(message.Bytes(), nil, nil)
			if list, ok := got.(*metainternalversion.List); ok && len(list.Items) == 1 {
				got = list.Items[0]
			}
			if _, ours := got.(*convertedObject); !ours || err != nil {
				t.Errorf("%T is decoded to %T, %v", o, got, err)
			}
		}
	}
}

func TestInternerIsBounded(t *testing.T) {
	names := interner{}
	for i := range 10 * maxInterned {
		names.intern(fmt.Sprint(i))
	}
	if len(names) > maxInterned {
		t.Errorf("%d names are kept", len(names))
	}
}

// TestNodeIsQueuedBeforeWaitersContinue checks that the first burst has the Node and its
// pod CIDRs when the source stops waiting for them.
func TestNodeIsQueuedBeforeWaitersContinue(t *testing.T) {
	o, p := newOwnNode("node-1"), newEventQueue()
	s := newStore("Node", nodeConverter("node-1"), func(n objectName, value any) sync.Event {
		e := o.event(n, value)
		if isClosed(o.found) || isClosed(o.hasPodRanges) {
			t.Error("found or hasPodRanges is closed before the event is queued")
		}
		return e
	}, p)
	s.onChange = o.closeWaiters
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "u"},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.1.0.0/24", "fd00:1::/64"}},
	}
	if err := s.Update(node); err != nil {
		t.Fatal(err)
	}
	if !isClosed(o.found) || !isClosed(o.hasPodRanges) {
		t.Error("found or hasPodRanges is not closed")
	}
	if events := p.take(); len(events) != 1 || !events[0].(sync.SetNode).Node.PodCIDRs[0].IsValid() {
		t.Errorf("queued: %v", events)
	}
}
