#include "operator/reconcile/pod_trouble.h"

#include <gtest/gtest.h>

namespace larder::reconcile {
namespace {

std::string word(const PodView& pod) {
  return text(trouble_of(pod, {}));
}

TEST(PodTroubleTest, EachPodHasOneTrouble) {
  PodView pod;
  pod.ready = true;
  EXPECT_EQ(trouble_of(pod, {}), Trouble::kNone);
  pod.killed_for_memory = true;
  EXPECT_EQ(trouble_of(pod, {}), Trouble::kNone) << "it was, and runs again";
  pod.ready = false;
  EXPECT_EQ(word(pod), "OutOfMemory");
  pod.killed_for_memory = false;
  EXPECT_EQ(word(pod), "Starting");
  pod.unscheduled = "0/1 nodes";
  EXPECT_EQ(word(pod), "NotScheduled");
  pod.waiting = "ErrImagePull";
  EXPECT_EQ(word(pod), "ImageNotPulled");
  pod.waiting = "CrashLoopBackOff";
  EXPECT_EQ(word(pod), "DoesNotRun");
}

TEST(PodTroubleTest, ReadyPodWithLarderdDownHasTrouble) {
  PodView pod;
  pod.ready = true;
  pod.uid = "u";
  Heard heard;
  heard.down["u"] = {"its disk is gone", false};
  EXPECT_STREQ(text(trouble_of(pod, heard)), "DoesNotRun");
  heard.down["u"].out_of_memory = true;
  EXPECT_STREQ(text(trouble_of(pod, heard)), "OutOfMemory");
}

}  // namespace
}  // namespace larder::reconcile
