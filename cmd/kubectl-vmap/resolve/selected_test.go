package resolve

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestNearestLabelsComeFirst has a selector with a typing error, and pods of many names.
func TestNearestLabelsComeFirst(t *testing.T) {
	api := fake.NewClientset()
	for _, app := range []string{"accounts", "billing", "cart", "catalogue", "orders"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app, Labels: map[string]string{"app": app}}}
		if err := api.Tracker().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "ordres"}}}
	if text := Selector(t.Context(), api, s).Text; !strings.Contains(text, "; pods there have app=orders, ") {
		t.Error(text)
	}
}

// TestInitContainerThatFailsIsTheReason has a pod whose other containers wait for it.
func TestInitContainerThatFailsIsTheReason(t *testing.T) {
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	p := corev1.Pod{Status: corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "first", State: ended(0)}, {Name: "second", State: ended(7)}},
		Conditions:            []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}},
	}}
	if text := fmt.Sprint(Readiness([]corev1.Pod{p})); !strings.Contains(text, "is not ready: its init container second has ended with exit code 7") {
		t.Error(text)
	}
}
