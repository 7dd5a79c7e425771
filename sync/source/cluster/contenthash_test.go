package cluster

import (
	"net/netip"
	"reflect"
	"testing"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// TestHashCoversEveryModelField changes each field of each value in turn. It fails when
// a field was added to the model but not to contentHash.
func TestHashCoversEveryModelField(t *testing.T) {
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
		nodeObject{SetNode: sync.SetNode{Node: model.Node{
			Addrs: [2]netip.Addr{addr, addr}, PodCIDRs: [2]netip.Prefix{prefix, prefix},
		}}},
		[]netip.Prefix{prefix},
	} {
		v := reflect.New(reflect.TypeOf(value)).Elem()
		v.Set(reflect.ValueOf(value))
		before := contentHash(v.Interface())
		if before == 0 || before != contentHash(value) {
			t.Fatalf("the hash of %T is zero or not deterministic", value)
		}
		eachField(v, v.Type().String(), func(path string, change, restore func()) {
			change()
			if contentHash(v.Interface()) == before {
				t.Errorf("the hash does not cover %s", path)
			}
			restore()
		})
	}
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
			if name := v.Type().Field(i).Name; name != "Triggered" { // not content of the object
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
