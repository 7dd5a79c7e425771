package resolve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"kube-vmap/cmd/inspect/nodestatus"
)

// A Cause is a field of an object that causes a verdict, and how.
type Cause struct {
	Object string `json:"object,omitempty"`
	// Field is spelled as in YAML, with its value if it is short.
	Field string `json:"field,omitempty"`
	Text  string `json:"text"`
}

// String returns "Service shop/web, spec.selector: app=web: matches no pod".
func (c Cause) String() string {
	text := c.Object
	if c.Field != "" {
		text = strings.TrimPrefix(text+", "+c.Field, ", ")
	}
	if text == "" {
		return c.Text
	}
	return text + ": " + c.Text
}

// maxNamed is how many things of a kind are named in one sentence.
const maxNamed = 3

// SelectedPods returns the pods that a Service selects; none without a selector.
func SelectedPods(ctx context.Context, api kubernetes.Interface, s *corev1.Service) ([]corev1.Pod, error) {
	if len(s.Spec.Selector) == 0 {
		return nil, nil
	}
	list, err := api.CoreV1().Pods(s.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: labels.SelectorFromSet(s.Spec.Selector).String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Selector names a selector that matches no pod, with the labels that pods have instead.
func Selector(ctx context.Context, api kubernetes.Interface, s *corev1.Service) Cause {
	return Cause{
		object(s), "spec.selector: " + labels.FormatLabels(s.Spec.Selector),
		"matches no pod in namespace " + s.Namespace + labelsOfPods(ctx, api, s),
	}
}

func object(s *corev1.Service) string { return "Service " + s.Namespace + "/" + s.Name }

func labelsOfPods(ctx context.Context, api kubernetes.Interface, s *corev1.Service) string {
	pods, err := api.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{Limit: 500})
	if err != nil {
		return ""
	}
	var found []string
	for _, p := range pods.Items {
		for k := range s.Spec.Selector {
			if v, ok := p.Labels[k]; ok && v != s.Spec.Selector[k] {
				found = append(found, k+"="+v)
			}
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) == 0 {
		return ""
	}
	return "; pods there have " + nodestatus.JoinFirst(found, len(found), maxLabels)
}

// maxLabels is how many labels of pods are named.
const maxLabels = 10

// TargetPorts names the target ports, of some ports of a Service, that no container declares.
// A number need not be declared, but if other ports are, it is probably wrong.
func TargetPorts(s *corev1.Service, pods []corev1.Pod, of func(*corev1.ServicePort) bool) (out []Cause) {
	for _, p := range s.Spec.Ports {
		if len(pods) == 0 || !of(&p) {
			continue
		}
		declared := declaredPorts(pods, Protocol(p.Protocol))
		named := p.TargetPort.Type == intstr.String
		known := slices.ContainsFunc(declared, func(d corev1.ContainerPort) bool {
			return named && d.Name == p.TargetPort.StrVal || !named && d.ContainerPort == p.TargetPort.IntVal
		})
		if known || !named && (len(declared) == 0 || p.TargetPort.IntVal == 0) {
			continue
		}
		text := "no container of its pods declares a port of that name; they have "
		if !named {
			text = "no container of its pods declares that port, though a program may listen there; they have "
		}
		out = append(out, Cause{object(s), "spec.ports[].targetPort: " + p.TargetPort.String(), text + portNames(declared)})
	}
	return out
}

func declaredPorts(pods []corev1.Pod, protocol corev1.Protocol) (ports []corev1.ContainerPort) {
	for i := range pods {
		for _, c := range pods[i].Spec.Containers {
			for _, p := range c.Ports {
				if Protocol(p.Protocol) == protocol {
					ports = append(ports, p)
				}
			}
		}
	}
	return ports
}

// portNames returns "http 8080, metrics 9100".
func portNames(ports []corev1.ContainerPort) string {
	var names []string
	for _, p := range ports {
		names = append(names, strings.TrimSpace(fmt.Sprintf("%s %d", p.Name, p.ContainerPort)))
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "none"
	}
	return strings.Join(names[:min(len(names), maxNamed)], ", ")
}

// Readiness names pods that are not ready.
func Readiness(pods []corev1.Pod) (out []Cause) {
	for i := range pods {
		p := &pods[i]
		c := condition(p, corev1.PodReady)
		if c.Status == corev1.ConditionTrue {
			continue
		}
		if len(out) == maxNamed {
			return append(out, Cause{Text: fmt.Sprintf("and more of its %d pods", len(pods))})
		}
		probe := ""
		for _, container := range p.Spec.Containers {
			if container.ReadinessProbe != nil {
				probe = "; its readinessProbe decides that"
			}
		}
		why := cmp.Or(InitFailure(p), strings.Trim(c.Reason+": "+c.Message, ": "), "status.phase: "+string(p.Status.Phase))
		out = append(out, Cause{"Pod " + p.Namespace + "/" + p.Name, "status.conditions Ready", "is not ready: " + why +
			probe})
	}
	return out
}

// condition returns a condition of a pod; an empty one if it does not have it.
func condition(p *corev1.Pod, t corev1.PodConditionType) (out corev1.PodCondition) {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			out = c
		}
	}
	return out
}

// Protocol returns a protocol with the API's default.
func Protocol(p corev1.Protocol) corev1.Protocol {
	return cmp.Or(p, corev1.ProtocolTCP)
}

// InitFailure returns how an init container of a pod fails, which the other containers wait for
// (PodInitializing); empty if none does.
func InitFailure(p *corev1.Pod) string {
	for _, s := range p.Status.InitContainerStatuses {
		ended := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated)
		if ended == nil || ended.ExitCode == 0 || s.State.Running != nil {
			continue
		}
		why := fmt.Sprintf("its init container %s has ended with exit code %d", s.Name, ended.ExitCode)
		if w := s.State.Waiting; w != nil && w.Reason != "" {
			why += " (" + w.Reason + ")"
		}
		return why
	}
	return ""
}
