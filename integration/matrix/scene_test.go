package matrix

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// scene is a lab with a folder of manifests and the clients that ask.
//
// Endpoints may be pod-1 to pod-3 and, on node-2, remote-1 and remote-2. The
// clients are a pod that serves nothing, one that may reach itself, the node from
// whatever address it likes, the node from its other address, and somebody
// outside.
type scene struct {
	*lab.Lab
	t          *testing.T
	dir        string
	hosts      map[string]*lab.Host
	nodeAddrs  []netip.Addr // all of node-1 but the one towards its pods
	generation int
	served     [2][]netip.Addr // where NodePorts must be served
	api        *api

	pod, itself, node, nodeToo, outside *client
}

// newScene makes a lab. node-1 has two more addresses, and everybody finds the
// way to the Services' addresses by way of it.
func newScene(t *testing.T) *scene {
	t.Helper()
	return newSceneIn(t, lab.Options{Pods: 4, RemotePods: 2})
}

// newSceneIn is newScene in a lab that has as many pods.
func newSceneIn(t *testing.T, o lab.Options) *scene {
	t.Helper()
	l := labtest.New(t, o)
	s := &scene{
		Lab: l, t: t, dir: t.TempDir(), hosts: map[string]*lab.Host{},
		pod:     &client{Host: l.Pods[3].Host, name: "a pod", row: "pod", asked: new(atomic.Uint32)},
		itself:  &client{Host: l.Pods[0].Host, name: "pod-1 itself", row: "pod", asked: new(atomic.Uint32)},
		node:    &client{Host: l.Node.Host, name: "the node", row: "node", asked: new(atomic.Uint32)},
		outside: &client{Host: l.Outside, name: "somebody outside", row: "outside", asked: new(atomic.Uint32)},
	}
	s.nodeToo = s.node.fromOther("the node from its other address", anotherAddrs)
	s.api = newAPI(t, l.Node.Host)
	for _, h := range l.Hosts() {
		s.hosts[h.Name] = h
	}
	for _, h := range []*lab.Host{l.Pods[0].Host, l.Pods[1].Host, l.Pods[2].Host, l.RemotePods[0].Host, l.RemotePods[1].Host} {
		s.must(h.ServeAll(targetPort))
	}
	for _, f := range model.Families {
		s.nodeAddrs = append(s.nodeAddrs, nodeAddr(f))
		s.giveNode(anotherAddrs[f])
		s.giveNode(strayAddrs[f])
		s.must(l.Outside.AddRoute(vipRanges[f], nodeAddr(f)))
		s.must(l.Outside.AddRoute(externalRanges[f], nodeAddr(f)))
		// An endpoint of node-2 that sees who asked from outside would answer by the
		// short way, and the client would not know whom it hears from.
		who := l.Outside.Addr(f)
		s.must(l.Remote.AddRoute(netip.PrefixFrom(who, who.BitLen()), nodeAddr(f)))
	}
	return s
}

// clients are one of each kind.
func (s *scene) clients() []*client { return []*client{s.pod, s.node, s.outside} }

// giveNode gives node-1 one more address.
func (s *scene) giveNode(a netip.Addr) {
	s.t.Helper()
	s.must(s.Node.AddAddress(a))
	s.nodeAddrs = append(s.nodeAddrs, a)
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start runs the proxy on what was put, and waits until the kernel has it.
func (s *scene) start(flags ...string) *daemon {
	s.t.Helper()
	var served [2][]netip.Addr
	for _, f := range model.Families {
		served[f] = append(served[f], nodeAddr(f))
		if slices.Contains(flags, nodePortAddresses) {
			served[f] = append(served[f], anotherAddrs[f])
		}
	}
	return s.startServing(served, flags...)
}

// startServing is start where the flags want NodePorts at these addresses.
func (s *scene) startServing(served [2][]netip.Addr, flags ...string) *daemon {
	s.t.Helper()
	s.served = served
	s.announce()
	d := run(s.t, s.Node, s.dir, flags...)
	s.settles()
	return d
}

// put describes Services, in place of those of the former call, and, where the
// proxy runs, waits until the kernel has them.
func (s *scene) put(services ...service) {
	s.t.Helper()
	var objects []any
	for _, v := range services {
		objects = append(objects, v.objects(s.hosts)...)
	}
	s.putObjects(objects...)
}

// putObjects is put for those who have the objects already.
func (s *scene) putObjects(objects ...any) {
	s.t.Helper()
	s.write("services.yaml", objects...)
	if s.generation > 0 {
		s.announce()
		s.settles()
	}
}

// cluster describes what a cluster has beside Services.
func (s *scene) cluster(objects ...any) {
	s.t.Helper()
	s.write("cluster.yaml", objects...)
}

// write puts a file in place at once: written under another name, which then
// becomes this one.
func (s *scene) write(name string, objects ...any) {
	s.t.Helper()
	out := bytes.NewBufferString("# written by a test\n")
	for _, o := range objects {
		doc, err := yaml.Marshal(o)
		s.must(err)
		out.WriteString("---\n")
		out.Write(doc)
	}
	path := filepath.Join(s.dir, name)
	s.must(os.WriteFile(path+".new", out.Bytes(), 0o644))
	s.must(os.Rename(path+".new", path))
	s.api.write(name, objects)
}

// beacon is a Service that has another port each time, in a file that is written
// last. The proxy reads all files at once and the kernel takes it all at once, so
// that whoever sees the port may count on everything else.
const beacon = 250

// beaconPorts are the port of the beacon and its NodePort.
func (s *scene) beaconPorts() (port, nodePort int) {
	return 1000 + s.generation, nodePorts + 1000 + s.generation
}

func (s *scene) announce() {
	s.t.Helper()
	s.generation++
	port, nodePort := s.beaconPorts()
	b := service{n: beacon, name: "beacon", endpoints: "pod-1", ports: []servicePort{
		{name: fmt.Sprintf("port-%d", port), protocol: model.TCP, port: port, target: targetPort, nodePort: nodePort},
	}}
	b.edit = func(o *corev1.Service) {
		for _, f := range model.Families {
			o.Spec.LoadBalancerSourceRanges = append(o.Spec.LoadBalancerSourceRanges, lab.PodRanges[f].String())
		}
	}
	s.write("z-beacon.yaml", b.objects(s.hosts)...)
}

// settles waits until the beacon can be seen by its NodePort where the flags
// want NodePorts, and by its load balancer address. That is for some sources
// only, because what a commit does to intervals is seen a few microseconds after
// the rest of it (nft_set_pipapo has a copy, which is put in place last).
func (s *scene) settles() {
	s.t.Helper()
	port, nodePort := s.beaconPorts()
	for _, f := range model.Families {
		var seen []netip.AddrPort
		for _, a := range s.served[f] {
			seen = append(seen, addrPort(a, nodePort))
		}
		for _, to := range append(seen, vip.port(f, beacon, port, nodePort)) {
			eventually.Succeeds(s.t, "the beacon is seen", func() error {
				a, err := s.pod.ask(way{model.TCP, f}, to, silence)
				if err == nil && a.Outcome != lab.Answered {
					err = fmt.Errorf("%s: %s", to, a)
				}
				return err
			})
		}
	}
}

const (
	// patience is for what must come, and is never used up.
	patience = 20 * time.Second
	// again is how often to look for what must come.
	again = 3 * time.Millisecond
)
