package demo

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// startUp is how long the program of the sleeping Service takes to listen.
const startUp = 2 * time.Second

const wakeIntroduction = `A Service sleeps: it has no pod. Clients connect to it from a pod, from the node and from
outside, over IPv4 and IPv6. A script takes the place of an autoscaler: it reads kube-vmap's
metric of the demand and, when there is some, starts a program that listens after 2 s.`

// TestWake is `make wake`.
func TestWake(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 2})
	daemon.RouteServices(t, l, l.Node)
	d := &demo{T: t, lab: l, folder: daemon.NewFolder(t, l), clients: []*lab.Host{l.Pods[1].Host, l.Node.Host, l.Outside}}
	d.nginx = daemon.Service{
		Name: "sleeper", Number: 10, Hold: time.Minute,
		ServicePorts: []daemon.ServicePort{{Name: "http", Protocol: model.TCP, Port: daemon.Port, Target: 8080}},
		Edit:         func(s *corev1.Service) { s.Annotations["kube-vmap.io/scale-to-zero"] = "true" },
	}
	fmt.Println(wakeIntroduction)
	d.section("kube-vmap starts, with one Service, which has no endpoint")
	d.folder.Put("nginx", d.nginx)
	d.start()
	if demand := d.demand(); demand != "" {
		d.Errorf("demand without clients: %s", demand)
	}

	d.section("Clients connect: their first packets are dropped, and not answered with a refusal")
	start := time.Now()
	at := func() float64 { return time.Since(start).Seconds() }
	clients := d.connect()
	eventually.Holds(t, "there is demand", func() bool { return d.demand() != "" })
	d.print("%.2f s: %s", at(), d.demand())
	d.print("kube-vmap get services: %s",
		strings.Join(strings.Fields(daemon.Run(d, l.Node.Host, "get", "services", "--no-headers").Stdout), "  "))

	d.section("The script starts a program on pod-1, which listens after 2 s; the pod becomes ready")
	<-time.After(startUp)
	_, err := l.Pods[0].Serve(model.TCP, 8080)
	d.must(err)
	d.nginx.Endpoints = []*lab.Host{l.Pods[0].Host}
	from := d.proxy.Log.Len()
	d.proxy.After(func() { d.folder.Put("nginx", d.nginx) })
	ready := at()
	d.print("%.2f s: ready", ready)
	d.log(from)

	d.section("The clients send again by themselves, and are answered")
	last := 0.0
	for range cap(clients) {
		a := <-clients
		d.must(a.err)
		last = at()
		d.print("%.2f s: %s to %s: %s", last, a.host, a.to, a.Answer)
		if a.Outcome != lab.Answered {
			d.Errorf("%s: %s", a.host, a.Answer)
		}
	}
	d.print("no client was refused; the last was answered %.2f s after the pod was ready", last-ready)
}

type attempt struct {
	host string
	to   netip.AddrPort
	lab.Answer
	err error
}

// connect lets all clients connect at the same time, and delivers how that ended. The capacity of the
// channel is the number of clients.
func (d *demo) connect() <-chan attempt {
	ended := make(chan attempt, len(d.clients)*len(model.Families))
	d.each(d.nginx, []model.Kind{model.KindClusterIP}, func(to netip.AddrPort, client *lab.Host) {
		go func() {
			a, err := client.Ask(model.TCP, to, timeout)
			ended <- attempt{client.Name, to, a, err}
		}()
	})
	return ended
}

// demand returns the line of the metric for the Service, if any.
func (d *demo) demand() string {
	d.Helper()
	text, err := d.lab.Node.Get("http://127.0.0.1:10249/metrics", timeout)
	d.must(err)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "kubevmap_service_demand{") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
