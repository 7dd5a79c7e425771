package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"kube-vmap/sync/follow/demand"
)

// objects are the Secret and the ConfigMap in an API server, which refuses the next updates of the ConfigMap.
type objects struct {
	v1.CoreV1Interface
	secret  corev1.Secret
	config  corev1.ConfigMap
	refuses int
}

type (
	secrets struct {
		v1.SecretInterface
		*objects
	}
	configs struct {
		v1.ConfigMapInterface
		*objects
	}
)

func (o *objects) Secrets(string) v1.SecretInterface       { return secrets{objects: o} }
func (o *objects) ConfigMaps(string) v1.ConfigMapInterface { return configs{objects: o} }

func (o secrets) Get(context.Context, string, metav1.GetOptions) (*corev1.Secret, error) {
	return o.secret.DeepCopy(), nil
}

func (o secrets) Update(_ context.Context, s *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	o.secret = *s
	return s, nil
}

func (o configs) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return o.config.DeepCopy(), nil
}

func (o configs) Update(_ context.Context, c *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	if o.refuses > 0 {
		o.refuses--
		return nil, errors.New("refused")
	}
	o.config = *c
	return c, nil
}

// TestCertificateIsMountedLater has starts of the program. After each that changes what nodes mount, demand
// is unknown until they have, and no longer, whatever the clock says.
func TestCertificateIsMountedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &objects{}
		for _, start := range []struct {
			what      string
			after     time.Duration // the last one
			change    func()
			new       bool
			remaining time.Duration
		}{
			{"installed", 0, func() {}, true, mountTime},
			{"restarted", time.Minute, func() {}, false, mountTime - time.Minute},
			{"after a day", 24 * time.Hour, func() {}, false, settleTime},
			{"ConfigMap without data", 0, func() { api.config.Data = nil }, false, mountTime},
			{"key removed, ConfigMap refused for a while", 0, func() { api.secret.Data, api.refuses = nil, 100 }, true, mountTime},
			{"in its last year", validity - lastYear, func() {}, true, mountTime},
		} {
			<-time.After(start.after)
			start.change()
			before := string(api.secret.Data[corev1.TLSCertKey])
			p := &publisher{api, metav1.NamespaceSystem, newDemands(), slog.New(slog.DiscardHandler)}
			pair, err := p.publish(t.Context())
			now, remaining := string(api.secret.Data[corev1.TLSCertKey]), time.Until(p.demands.settled)
			if err != nil || remaining.Round(time.Second) != start.remaining || (now != before) != start.new ||
				api.config.Data[demand.CAFile] != now || pair.Leaf.NotBefore.After(time.Now()) {
				t.Errorf("%s: %s remain, %v, want %s; a new certificate: %t, from %s",
					start.what, remaining, err, start.remaining, now != before, pair.Leaf.NotBefore)
			}
		}
	})
}

// TestClockIsSetBack has a clock that was ahead when the certificate was created.
func TestClockIsSetBack(t *testing.T) {
	for ahead, isNew := range map[time.Duration]bool{30 * time.Minute: false, 24 * time.Hour: true} {
		p := &publisher{&objects{}, metav1.NamespaceSystem, newDemands(), slog.New(slog.DiscardHandler)}
		var before, now tls.Certificate
		synctest.Test(t, func(t *testing.T) {
			<-time.After(ahead)
			before, _ = p.publish(t.Context())
		})
		synctest.Test(t, func(t *testing.T) { // whose clock begins again
			p.demands = newDemands()
			now, _ = p.publish(t.Context())
			remaining := time.Until(p.demands.settled)
			if now.Leaf.NotBefore.After(time.Now()) || now.Leaf.Equal(before.Leaf) == isNew || remaining != mountTime {
				t.Errorf("%s ahead: valid from %s, %s remain, a new certificate: %t", ahead, now.Leaf.NotBefore, remaining, isNew)
			}
		})
	}
}
