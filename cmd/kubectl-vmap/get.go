package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"kube-vmap/cmd/inspect/get"
	"kube-vmap/cmd/kubectl-vmap/cluster"
)

// labels returns the function that returns which Services have the labels of a selector, as the API
// server knows them.
func labels(f *cluster.Flags) get.Labels {
	return func(ctx context.Context, selector string) (func(namespace, name string) bool, error) {
		c, err := f.Cluster()
		if err != nil {
			return nil, err
		}
		api, err := metadata.NewForConfig(c.REST())
		if err != nil {
			return nil, fmt.Errorf("configure the client: %w", err)
		}
		services := api.Resource(corev1.SchemeGroupVersion.WithResource("services"))
		list, err := services.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, fmt.Errorf("list services with the labels %s: %w", selector, err)
		}
		has := map[[2]string]bool{}
		for i := range list.Items {
			has[[2]string{list.Items[i].Namespace, list.Items[i].Name}] = true
		}
		return func(namespace, name string) bool { return has[[2]string{namespace, name}] }, nil
	}
}
