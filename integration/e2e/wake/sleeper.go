package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	namespace = "wake"
	timeout   = time.Minute     // of a connection
	idle      = 5 * time.Minute // after which a Deployment should be back at 0 replicas
)

// A sleeper is a Deployment with a Service of its name. Times are when a watch reported the last one.
type sleeper struct {
	name string
	port int32 // on nodes

	mu                   sync.Mutex
	replicas, pods       int32
	scaled, ready, slept time.Time
}

// A source is where connections begin: a pod, or this process if it has no address.
type source struct{ name, address string }

// watch returns what there is in the namespace, and follows the Deployments.
func watch(ctx context.Context, client kubernetes.Interface) ([]source, []*sleeper, error) {
	services, err := client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=clients"})
	if err != nil {
		return nil, nil, err
	}
	sources := []source{{name: "outside"}}
	for _, pod := range pods.Items {
		sources = append(sources, source{pod.Spec.NodeName, pod.Status.PodIP})
	}
	var sleepers []*sleeper
	byName := map[string]*sleeper{}
	for _, service := range services.Items {
		s := &sleeper{name: service.Name, port: service.Spec.Ports[0].NodePort}
		sleepers, byName[s.name] = append(sleepers, s), s
	}
	if len(sleepers) == 0 {
		return nil, nil, errors.New("there are no Services")
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	seen := func(object any) {
		switch object := object.(type) {
		case *appsv1.Deployment:
			if s := byName[object.Name]; s != nil {
				s.deployment(object)
			}
		case *corev1.Pod:
			if s := byName[object.Labels["app"]]; s != nil {
				s.pod(object)
			}
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: seen, UpdateFunc: func(_, object any) { seen(object) }}
	if _, err := factory.Apps().V1().Deployments().Informer().AddEventHandler(handler); err != nil {
		return nil, nil, err
	}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(handler); err != nil {
		return nil, nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return sources, sleepers, nil
}

func (s *sleeper) deployment(d *appsv1.Deployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	replicas := *d.Spec.Replicas
	switch {
	case s.replicas == 0 && replicas > 0:
		s.scaled = time.Now()
	case s.replicas > 0 && replicas == 0:
		s.slept = time.Now()
	}
	s.replicas, s.pods = replicas, d.Status.Replicas
}

func (s *sleeper) pod(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && s.ready.Before(s.scaled) {
			s.ready = time.Now()
		}
	}
}

func (s *sleeper) asleep() bool { return s.replicas == 0 && s.pods == 0 }

// await returns an error if the condition, which may use locked fields, does not become true in time.
func (s *sleeper) await(limit time.Duration, condition func() bool) error {
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		s.mu.Lock()
		ok := condition()
		s.mu.Unlock()
		switch {
		case ok:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("not within %v", limit)
		}
	}
}

// wake connects to a sleeper, waits until it sleeps again, and returns what happened.
func (s *sleeper) wake(from source) wake {
	start := time.Now()
	err := s.connect(from)
	end := time.Now()
	if err == nil {
		err = s.await(timeout, func() bool { return s.scaled.After(start) && s.ready.After(s.scaled) })
	}
	if err == nil {
		err = s.await(idle, func() bool { return s.slept.After(end) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return wake{s.scaled.Sub(start), s.ready.Sub(start), end.Sub(start), s.slept.Sub(end), err}
}

// connect sends a request over a new connection, and returns why there was no reply.
func (s *sleeper) connect(from source) error {
	address := fmt.Sprintf("http://172.30.0.11:%d/hostname", s.port)
	if from.address != "" {
		command := fmt.Sprintf("curl -sSf --max-time %.0f http://%s.%s/hostname", timeout.Seconds(), s.name, namespace)
		address = fmt.Sprintf("http://%s:8080/shell?cmd=%s", from.address, url.QueryEscape(command))
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: timeout + 5*time.Second}
	response, err := client.Get(address)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && bytes.Contains(body, []byte(`"error"`)) { // of curl
		err = errors.New(string(body))
	}
	return err
}
