package cluster

import (
	"net/netip"
	"reflect"
	"testing"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// TestEveryFieldHasAMeaning changes each field of what is told in turn, so that no
// field that is added later is forgotten.
func TestEveryFieldHasAMeaning(t *testing.T) {
	addr := netip.MustParseAddr("10.0.0.1")
	prefix := netip.MustParsePrefix("10.0.0.0/8")
	for _, value := range []any{
		sync.SetService{Service: model.Service{
			ClusterIPs: []netip.Addr{addr}, ExternalIPs: []netip.Addr{addr}, LoadBalancerIPs: []netip.Addr{addr},
			SourceRanges: []netip.Prefix{prefix}, Ports: []model.ServicePort{{}},
		}},
		sync.SetSlice{Slice: model.EndpointSlice{
			Ports: []model.EndpointPort{{}}, Endpoints: []model.Endpoint{{Addr: addr}},
		}},
		sync.SetNode{Node: model.Node{Addrs: [2]netip.Addr{addr, addr}, PodCIDRs: [2]netip.Prefix{prefix, prefix}}},
		[]netip.Prefix{prefix},
	} {
		v := reflect.New(reflect.TypeOf(value)).Elem()
		v.Set(reflect.ValueOf(value))
		before := contentHash(v.Interface())
		if before == 0 || before != contentHash(value) {
			t.Fatalf("%T does not mean what it means", value)
		}
		eachField(v, v.Type().String(), func(path string, change, restore func()) {
			change()
			if contentHash(v.Interface()) == before {
				t.Errorf("%s has no meaning", path)
			}
			restore()
		})
	}
}

// eachField calls f for each value in v that can be changed.
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
			if name := v.Type().Field(i).Name; name != "Triggered" { // which is no part of what the object means
				eachField(v.Field(i), path+"."+name, f)
			}
		}
	case reflect.Slice:
		f(path+"[+]", func() { v.Set(reflect.Append(was, was.Index(0))) }, func() { v.Set(was) })
		f(path+"[-]", func() { v.SetZero() }, func() { v.Set(was) })
		eachField(v.Index(0), path+"[0]", f)
	case reflect.Array:
		for i := range v.Len() {
			eachField(v.Index(i), path, f)
		}
	case reflect.Bool:
		set(true)
	case reflect.String:
		set("x")
	default:
		set(1)
	}
}
