package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	v1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/cert"

	"kube-vmap/sync/follow/demand"
)

const (
	// objectName is the name of the Service, the Secret and the ConfigMap.
	objectName = "kube-vmap-scaler"
	// A certificate is valid for validity, and replaced at a start in its last year.
	validity, lastYear = 10 * 365 * 24 * time.Hour, 365 * 24 * time.Hour
	// publishPeriod is the time between attempts to publish a certificate.
	publishPeriod = 2 * time.Second
	// mountTime is how long kubelets take to mount a new certificate, without which nodes cannot report.
	mountTime = 2 * time.Minute
)

// A publisher publishes the certificate in the ConfigMap, for nodes. Its key is in the Secret.
type publisher struct {
	api       v1.CoreV1Interface
	namespace string
	demands   *demands
	log       *slog.Logger
}

// publish publishes and returns the certificate. Demand is not known for as long as kubelets may still
// take to mount it. It tries until ctx ends.
func (p *publisher) publish(ctx context.Context) (pair tls.Certificate, err error) {
	var remaining time.Duration
	err = wait.PollUntilContextCancel(ctx, publishPeriod, true, func(ctx context.Context) (bool, error) {
		var public string
		var err error
		if pair, public, err = p.certificate(ctx); err == nil {
			remaining, err = p.update(ctx, map[string]string{
				demand.CAFile: public, demand.ServiceFile: p.namespace + "/" + objectName,
			})
		}
		if err != nil {
			p.log.Warn("certificate not published", "err", err)
			return false, nil
		}
		remaining = min(mountTime, max(remaining, mountTime-age(pair))) // a clock may have been set back
		p.demands.unsettle(max(settleTime, remaining))
		return true, nil
	})
	return pair, err
}

// certificate returns the certificate in the Secret. If there is none, it creates it.
func (p *publisher) certificate(ctx context.Context) (pair tls.Certificate, public string, err error) {
	secret, err := p.api.Secrets(p.namespace).Get(ctx, objectName, metav1.GetOptions{})
	if err != nil {
		return pair, "", err
	}
	pair, err = tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if now := time.Now(); err == nil && now.After(pair.Leaf.NotBefore) && now.Before(pair.Leaf.NotAfter.Add(-lastYear)) {
		return pair, string(secret.Data[corev1.TLSCertKey]), nil
	}
	p.log.Info("creating a certificate")
	text, key, err := cert.GenerateSelfSignedCertKeyWithOptions(
		cert.SelfSignedCertKeyOptions{Host: demand.ServerName, MaxAge: validity})
	if err != nil {
		return pair, "", err
	}
	secret.Data = map[string][]byte{corev1.TLSCertKey: text, corev1.TLSPrivateKeyKey: key}
	if _, err = p.api.Secrets(p.namespace).Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		return pair, "", err
	}
	pair, err = tls.X509KeyPair(text, key)
	return pair, string(text), err
}

// age returns how long ago a certificate was created. The library dates it back by an hour.
func age(pair tls.Certificate) time.Duration { return time.Since(pair.Leaf.NotBefore.Add(time.Hour)) }

// update changes the data of the ConfigMap. It returns how long kubelets take to mount it.
func (p *publisher) update(ctx context.Context, data map[string]string) (time.Duration, error) {
	config, err := p.api.ConfigMaps(p.namespace).Get(ctx, objectName, metav1.GetOptions{})
	if err != nil || maps.Equal(config.Data, data) {
		return 0, err
	}
	config.Data = data
	_, err = p.api.ConfigMaps(p.namespace).Update(ctx, config, metav1.UpdateOptions{})
	return mountTime, err
}
