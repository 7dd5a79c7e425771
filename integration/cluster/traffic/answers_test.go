package traffic_test

import (
	"strings"
	"testing"

	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
)

func TestAnswersAreFromExactlyTheNamedHosts(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 2})
	if err := l.Pods[0].ServeAll(port); err != nil {
		t.Fatal(err)
	}
	c, to := traffic.From(l.Pods[1].Host), direct(l.Pods[0])
	if err := c.AnsweredBy(to, "pod-1"); err != nil {
		t.Error(err)
	}
	for says, names := range map[string][]string{
		"want an answer by pod-7":   {"pod-7"},
		"no answer by [pod-7]":      {"pod-1", "pod-7"},
		"want an answer by , but a": nil,
	} {
		if err := c.AnsweredBy(to, names...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("by %v: %v, want %s", names, err, says)
		}
	}
	if err := c.Comes(to, lab.Refused, traffic.Timeout); err == nil || !strings.Contains(err.Error(), "unexpected outcome") {
		t.Errorf("who answers refuses: %v", err)
	}
	to.Port++
	if err := c.Comes(to, lab.Refused, traffic.Timeout); err != nil {
		t.Error(err)
	}
}
