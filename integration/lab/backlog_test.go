package lab_test

import (
	"fmt"
	"testing"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

func TestFullBacklogCompletesNoHandshake(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 2})
	backlog, err := l.Pods[0].Backlog(port)
	if err != nil {
		t.Fatal(err)
	}
	await := func(connected bool) {
		for _, f := range model.Families {
			eventually.Succeeds(t, f.String(), func() error {
				a, err := l.Pods[1].Ask(model.TCP, l.Pods[0].AddrPort(f, port), silence)
				if err == nil && (a.Outcome != lab.TimedOut || a.Local.IsValid() != connected) {
					err = fmt.Errorf("want connected: %t, but %s, from %s", connected, a, a.Local)
				}
				return err
			})
		}
	}
	await(true)
	if err := backlog.Shrink(); err != nil {
		t.Fatal(err)
	}
	await(false)
}
