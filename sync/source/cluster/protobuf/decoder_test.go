package protobuf

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
	"kube-vmap/sync/source/convert"
	"kube-vmap/sync/source/convert/converttest"
)

// result is the converted object, and the other parts that package cluster reads.
type result struct {
	value, uid, version, trigger, end any
	errs                              string
}

func resultOf[T any](value T, m metav1.ObjectMeta, errs error) result {
	r := result{
		value: value, uid: m.UID, version: m.ResourceVersion, trigger: m.Annotations[corev1.EndpointsLastChangeTriggerTime],
		end: m.Annotations[metav1.InitialEventsAnnotationKey],
	}
	if errs != nil {
		r.errs = errs.Error()
	}
	return r
}

func serviceResult(s *corev1.Service) result {
	v, errs := convert.Service(s)
	return resultOf(v, s.ObjectMeta, errs.ToAggregate())
}

func sliceResult(s *discoveryv1.EndpointSlice) result {
	v, errs := convert.Slice(s)
	return resultOf(v, s.ObjectMeta, errs.ToAggregate())
}

// unread fills in fields that no proxy reads, and those that package cluster reads.
func unread(m *metav1.ObjectMeta) {
	m.GenerateName, m.Generation, m.ResourceVersion = "generated-", 7, "1234"
	m.Finalizers, m.OwnerReferences = []string{"example.com/f"}, []metav1.OwnerReference{{Name: "owner"}}
	m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Time: ptr.To(metav1.Unix(1, 0)), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = strings.Repeat("{}", 500)
	m.Annotations[corev1.EndpointsLastChangeTriggerTime] = time.Unix(1, 2).Format(time.RFC3339Nano)
	m.Annotations[metav1.InitialEventsAnnotationKey] = "true"
}

// unreadOf sets fields that are not read. Fields that are read belong in
// converttest/draw.go.
func unreadOf(e *discoveryv1.Endpoint) {
	e.Hostname, e.Zone, e.TargetRef = ptr.To("pod-1"), ptr.To("zone-a"), &corev1.ObjectReference{Kind: "Pod", Name: "pod-1"}
}

func FuzzDecodedObjectsAreConvertedTheSame(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		data := make([]byte, random.IntN(200))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		draw, d := converttest.NewDraw(data), NewDecoder()
		// The decoder's memory has the objects before.
		for range 3 {
			service, slice := draw.Service(), draw.Slice()
			unread(&service.ObjectMeta)
			unread(&slice.ObjectMeta)
			for i := range slice.Endpoints {
				unreadOf(&slice.Endpoints[i])
			}
			s, err := d.Service(encode(t, service))
			if err != nil {
				t.Fatal(err)
			}
			compare(t, serviceResult(s), serviceResult(reencode(t, service, &corev1.Service{})))
			e, err := d.Slice(encode(t, slice))
			if err != nil {
				t.Fatal(err)
			}
			compare(t, sliceResult(e), sliceResult(reencode(t, slice, &discoveryv1.EndpointSlice{})))
		}
	})
}

// message is an API object in protobuf, by the generated code.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

func encode(t testing.TB, m message) []byte {
	t.Helper()
	out, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// reencode returns to, an empty object, as the generated code decodes m.
func reencode[M message](t testing.TB, m, to M) M {
	t.Helper()
	if err := to.Unmarshal(encode(t, m)); err != nil {
		t.Fatal(err)
	}
	return to
}

func compare(t *testing.T, got, want result) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// FuzzDamagedMessages looks for messages that make the decoder panic, or that the
// generated code decodes to something else.
func FuzzDamagedMessages(f *testing.F) {
	draw := converttest.NewDraw([]byte("seed"))
	for range 20 {
		f.Add(encode(f, draw.Service()), true)
		f.Add(encode(f, draw.Slice()), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, service bool) {
		d := NewDecoder()
		for _, data := range [][]byte{data, data[:len(data)/2], data[len(data)/2:]} {
			if service {
				other := &corev1.Service{}
				if s, err := d.Service(data); err == nil && other.Unmarshal(data) == nil {
					compare(t, serviceResult(s), serviceResult(other))
				}
				continue
			}
			other := &discoveryv1.EndpointSlice{}
			if s, err := d.Slice(data); err == nil && other.Unmarshal(data) == nil {
				compare(t, sliceResult(s), sliceResult(other))
			}
		}
	})
}

func TestTruncatedMessagesAreErrors(t *testing.T) {
	slice := slice("web", "10.1.0.1", "node-1")
	data, whole := encode(t, slice), 0
	for n := range data {
		if _, err := NewDecoder().Slice(data[:n]); err == nil {
			whole++ // cut between two fields
		}
	}
	if fields := 1 + 1 + 1 + 1; whole > fields {
		t.Errorf("%d truncated messages are no errors, want %d at most", whole, fields)
	}
}

func slice(service, address, node string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}},
	}
}

func TestConvertedObjectsOutliveTheNextOne(t *testing.T) {
	d := NewDecoder()
	var got, want []*model.EndpointSlice
	for _, s := range []*discoveryv1.EndpointSlice{
		slice("web", "10.1.0.1", "node-1"), slice("dns", "10.1.0.2", "node-2"), slice("web", "10.1.0.3", "node-1"),
	} {
		data := encode(t, s)
		decoded, err := d.Slice(data)
		if err != nil {
			t.Fatal(err)
		}
		v, _ := convert.Slice(decoded)
		clear(data)
		got = append(got, v)
		v, _ = convert.Slice(s)
		want = append(want, v)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestDecoderAllocatesLittle compares the memory of a decoder with the generated code's,
// for a slice as controllers write them.
func TestDecoderAllocatesLittle(t *testing.T) {
	s := slice("web", "10.1.0.1", "node-1")
	for range 9 {
		s.Endpoints = append(s.Endpoints, s.Endpoints[0])
	}
	for i := range s.Endpoints {
		unreadOf(&s.Endpoints[i])
	}
	unread(&s.ObjectMeta)
	data, d := encode(t, s), NewDecoder()
	ours := testing.AllocsPerRun(100, func() { _, _ = d.Slice(data) })
	theirs := testing.AllocsPerRun(100, func() { _ = (&discoveryv1.EndpointSlice{}).Unmarshal(data) })
	if ours > theirs/5 {
		t.Errorf("%.0f allocations, the generated code makes %.0f", ours, theirs)
	}
	t.Logf("%.0f allocations, the generated code makes %.0f", ours, theirs)
}
