package shadow

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// sizeVariable is the environment variable with the number of Services to measure.
const sizeVariable = "KUBE_VMAP_SHADOW_SERVICES"

// TestCostOfManyServices logs what a comparison of many Services with 10 endpoints costs, in
// both families. By default there are few: kube-proxy needs a minute for 10,000.
func TestCostOfManyServices(t *testing.T) {
	n := 300
	if text := os.Getenv(sizeVariable); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, backend := range []string{"", iptablesNFT} {
		t.Run("mode-"+backend, func(t *testing.T) { compareMany(t, backend, n) })
	}
}

// compareMany compares with a mode of kube-proxy.
func compareMany(t *testing.T, backend string, n int) {
	r := newRigOf(t, backend, []daemon.Service{{Name: "plain", Number: 255, EndpointSpec: everywhere}})
	r.put(manyServices(n, 10)...)
	r.await(10*time.Minute, func() error {
		for _, f := range model.Families {
			if have := r.countServices(f); have < n {
				return fmt.Errorf("%d of %d Services in %s", have, n, f)
			}
		}
		return nil
	})
	r.stop()
	cmd := r.Node.Command(t.Context(), daemon.Program(t), "shadow", "--once", "--master=http://"+apiAddress,
		"--hostname-override=node-1", "--proxy-mode="+r.mode(), "--cluster-cidr="+podRanges, "-v=2")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	usage := cmd.ProcessState
	memory := usage.SysUsage().(*syscall.Rusage).Maxrss >> 10
	t.Logf("%d Services: %v, of a processor %v user and %v system, %d MiB\n%s", n, time.Since(began), usage.UserTime(), usage.SystemTime(), memory, out)
	r.must(err)
}

// countServices returns the number of ClusterIPs in kube-proxy's rules.
func (r *rig) countServices(f model.Family) int {
	r.t.Helper()
	if r.backend != "" {
		return strings.Count(r.save(f, "nat"), "-A KUBE-SERVICES ")
	}
	out, err := r.command("nft", "list", "map", nft.FamilyName(f), "kube-proxy", "service-ips")
	r.must(err)
	return strings.Count(out, "goto")
}

// manyServices returns Services with endpoints of other nodes.
func manyServices(n, endpoints int) (out []any) {
	for i := range n {
		name := fmt.Sprintf("service-%d", i)
		s := &corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}},
		}
		out = append(out, s)
		for _, f := range model.Families {
			s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, after(lab.ServiceRanges[f].Addr(), 1024+i).String())
			s.Spec.IPFamilies = append(s.Spec.IPFamilies, corev1.IPFamily(f.String()))
			port, protocol, none := int32(8080), corev1.ProtocolTCP, ""
			slice := &discoveryv1.EndpointSlice{
				TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: name + "-" + strings.ToLower(f.String()),
					Labels: map[string]string{discoveryv1.LabelServiceName: name},
				},
				AddressType: discoveryv1.AddressType(f.String()),
				Ports:       []discoveryv1.EndpointPort{{Name: &none, Port: &port, Protocol: &protocol}},
			}
			first := [...]netip.Addr{model.IPv4: netip.MustParseAddr("10.0.0.0"), model.IPv6: netip.MustParseAddr("fd01::")}[f]
			for k := range endpoints {
				slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{after(first, i*endpoints+k+1).String()}})
			}
			out = append(out, slice)
		}
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	}
	return out
}

// after returns the n-th address after another one.
func after(a netip.Addr, n int) netip.Addr {
	b := a.AsSlice()
	low := b[len(b)-4:]
	binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)+uint32(n))
	out, _ := netip.AddrFromSlice(b)
	return out
}
