package model

import (
	"net/netip"
	"reflect"
	"testing"
)

// TestEqualComparesEveryField changes each field of each value in turn. It fails when a field
// was added to a type but not to its equal method.
func TestEqualComparesEveryField(t *testing.T) {
	addr, prefix := netip.MustParseAddr("10.0.0.1"), netip.MustParsePrefix("10.0.0.0/8")
	comparesEveryField(t, (*Service).equal, func() Service {
		return Service{
			ClusterIPs: []netip.Addr{addr}, ExternalIPs: []netip.Addr{addr}, LoadBalancerIPs: []netip.Addr{addr},
			SourceRanges: []netip.Prefix{prefix}, DeniedRanges: []netip.Prefix{prefix}, Ports: []ServicePort{{}}, Nodes: NodeSelector{{}},
		}
	})
	comparesEveryField(t, (*EndpointSlice).equal, func() EndpointSlice {
		return EndpointSlice{Ports: []EndpointPort{{}}, Endpoints: []Endpoint{{Addr: addr}}}
	})
}

// TestEqualObjectsChangeNothing sets objects again, as after a list of the API server.
func TestEqualObjectsChangeNothing(t *testing.T) {
	m := NewServiceMap(Options{}, Node{})
	service := func(port uint16) Service {
		return Service{
			Name: ServiceName{"default", "web"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
			Ports: []ServicePort{{Protocol: SCTP, Port: port}},
		}
	}
	slice := func(owner string) EndpointSlice {
		return EndpointSlice{
			Name: EndpointSliceName{"default", "web-1"}, Service: ServiceName{"default", owner},
			Endpoints: []Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Ready: true}},
		}
	}
	for i, step := range []struct {
		changed bool
		set     func() bool
	}{
		{true, func() bool { return m.SetService(service(80)) }},
		{false, func() bool { return m.SetService(service(80)) }},
		{true, func() bool { return m.SetService(service(81)) }},
		{true, func() bool { return m.SetSlice(slice("web")) }},
		{false, func() bool { return m.SetSlice(slice("web")) }},
		{true, func() bool { return m.SetSlice(slice("other")) }},
		{true, func() bool { return m.DeleteSlice(slice("").Name) }},
		{false, func() bool { return m.DeleteSlice(slice("").Name) }},
		{true, func() bool { return m.DeleteService(service(0).Name) }},
		{false, func() bool { return m.DeleteService(service(0).Name) }},
	} {
		if changed := step.set(); changed != step.changed || changed != (len(m.dirty) > 0) {
			t.Errorf("step %d: changed %v with %d Services to compute, want %v", i, changed, len(m.dirty), step.changed)
		}
		m.Changes()
	}
}

func comparesEveryField[T any](t *testing.T, equal func(a, b *T) bool, newValue func() T) {
	t.Helper()
	value, changed := newValue(), newValue()
	if !equal(&value, &changed) {
		t.Fatalf("%+v is not equal to itself", value)
	}
	v := reflect.ValueOf(&changed).Elem()
	eachField(v, v.Type().String(), func(path string, change, restore func()) {
		change()
		if equal(&value, &changed) {
			t.Errorf("equal does not compare %s", path)
		}
		restore()
	})
}

// eachField calls f for each field in v, and in what v contains.
func eachField(v reflect.Value, path string, f func(path string, change, restore func())) {
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	set := func(to any) {
		f(path, func() { v.Set(reflect.ValueOf(to).Convert(v.Type())) }, func() { v.Set(was) })
	}
	switch v.Interface().(type) {
	case netip.Addr:
		set(netip.MustParseAddr("::ffff:10.0.0.1"))
		set(netip.MustParseAddr("10.0.0.2"))
		return
	case netip.Prefix:
		set(netip.MustParsePrefix("10.0.0.0/9"))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachField(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice:
		f(path+"[+]", func() { v.Set(reflect.Append(was, was.Index(0))) }, func() { v.Set(was) })
		f(path+"[-]", func() { v.SetZero() }, func() { v.Set(was) })
		eachField(v.Index(0), path+"[0]", f)
	case reflect.Bool:
		set(true)
	case reflect.String:
		set("x")
	default:
		set(1)
	}
}
