-- job_submit.lua: hands $what to drfh, which decides when and where they start.
--
-- To install
--   1. Save this file as $path, readable for SlurmUser.
--   2. In $conf: $setting$now
--      Plugins run in this order; lua is last, so that it sees the partition the others chose.
--   3. scontrol reconfigure
--   4. Start drfh slurm run: without it, jobs that are submitted from now on stay held. Jobs that
--      wait already are left to Slurm.
-- To take it out
--   1. Put back the old line JobSubmitPlugins, then scontrol reconfigure.
--   2. Stop drfh slurm run, and give the waiting jobs to Slurm: drfh slurm release-all
-- If you have a job_submit.lua already
--   Keep it, paste this file into it without the functions slurm_job_submit and slurm_job_modify
--   at the end, and in yours call, as the last thing that they do instead of returning SUCCESS,
--        return drfh_submit(job_desc, part_list, submit_uid)
--        return drfh_modify(job_desc, job_rec, part_list, modify_uid)
--
-- slurmctld reads this file again when it changes. It was tested with Slurm 22.05 and Lua 5.1.
--
-- What users should know
--   * A job waits with reason JobHeldUser until drfh starts it; salloc and srun wait as well.
--   * scontrol hold and release work on one's own jobs. A held job shows the start time 2099-01-01;
--     released, it may start at once, whatever --begin said. Releasing a job that one does not hold
--     oneself is denied, and so are Priority, Nice, NodeList, another node count, a reservation for
--     a waiting job, and moves between partitions that drfh manages and others.
--     The log of slurmctld says why (at level info).
--   * A job runs on one node (--nodes=1-4 becomes 1-1), and names either partitions that drfh
--     manages or others.
--   * --test-only shows a start time that means nothing.

-- The partitions whose jobs drfh places; nil: all of them.
local DRFH_PARTITIONS = $partitions
-- Who may change everything about every job: root and SlurmUser. drfh itself runs as one of them.
local DRFH_TRUSTED = $trusted
-- AdminComment belongs to drfh in its partitions: "drfh", and more words after it. What somebody
-- else writes there at submission is overwritten.
local DRFH_MARK = $mark
local DRFH_HELD = $held -- its owner holds it
local DRFH_PARKED = $deferred -- it waits for another job
-- Every job is held for drfh, so an owner's own hold must be something else: a begin time far away
-- (2099-01-01). A job that waits for another one is not held, as Slurm would not look whether that
-- one has ended, but has a begin time as well (2098-01-01).
local DRFH_HELD_UNTIL = $held_until
local DRFH_PARKED_UNTIL = $deferred_until
-- The bit of a job's state that says: Slurm holds it because its reservation was deleted.
local DRFH_RESERVATION_GONE = 2 ^ 21

-- Jobs and arrays that owners have held, until drfh has written it into their AdminComment.
local drfh_holds, drfh_holds_count = {}, 0

-- Whether a partition, or each one in a list, is managed, and whether one is; nil or "" means the
-- default partition.
local function drfh_manages(partition, part_list)
   if DRFH_PARTITIONS == nil then
      return true, true
   end
   if partition == nil or partition == "" then
      for name, part in pairs(part_list) do
         if part.flag_default == 1 and DRFH_PARTITIONS[name] then
            return true, true
         end
      end
      return false, false
   end
   local all, some = true, false
   for name in string.gmatch(partition, "[^,]+") do
      if DRFH_PARTITIONS[name] then
         some = true
      else
         all = false
      end
   end
   return all and some, some
end

-- The same of a job. Those in a reservation are left alone: somebody has decided about its nodes.
local function drfh_places(partition, reservation, part_list)
   if reservation ~= nil and reservation ~= "" then
      return false, false
   end
   return drfh_manages(partition, part_list)
end

local function drfh_given(number)
   return number ~= nil and number ~= slurm.NO_VAL and number ~= slurm.NO_VAL16
end

-- Names of partitions that this user may use and drfh leaves alone, as the end of a sentence.
local function drfh_elsewhere(part_list)
   local names = {}
   for name in pairs(part_list) do
      if not drfh_manages(name, part_list) then
         names[#names + 1] = name
      end
   end
   if #names == 0 then
      return ""
   end
   table.sort(names)
   return ", or use a partition that drfh does not manage: " .. table.concat(names, ", ")
end

-- Whether a request needs several nodes: a number of nodes, or tasks over nodes.
local function drfh_needs_nodes(job_desc)
   if drfh_given(job_desc.min_nodes) and job_desc.min_nodes > 1 then
      return true
   end
   return drfh_given(job_desc.num_tasks) and drfh_given(job_desc.ntasks_per_node)
      and job_desc.ntasks_per_node > 0 and job_desc.num_tasks > job_desc.ntasks_per_node
end

function drfh_submit(job_desc, part_list, submit_uid)
   local all, some = drfh_places(job_desc.partition, job_desc.reservation, part_list)
   if not some then
      return slurm.SUCCESS
   end
   if not all then
      slurm.log_user("drfh manages some of the partitions %s and not others: name partitions of one"
         .. " kind.", job_desc.partition)
      return slurm.ERROR
   end
   if drfh_needs_nodes(job_desc) then
      slurm.log_user("drfh places a job on one node, and this one needs several: ask for one"
         .. " node%s.", drfh_elsewhere(part_list))
      return slurm.ESLURM_INVALID_NODE_COUNT or slurm.ERROR
   end
   if drfh_given(job_desc.het_job_offset) then
      slurm.log_user("drfh places jobs one by one, and a heterogeneous job starts all its parts"
         .. " together: submit them as jobs%s.", drfh_elsewhere(part_list))
      return slurm.ERROR
   end
   if job_desc.immediate == 1 then -- salloc and srun --immediate: a held job never is
      slurm.log_user("drfh decides when a job starts: ask without --immediate%s.",
         drfh_elsewhere(part_list))
      return slurm.ERROR
   end
   -- A job with many tasks could spread from the node that drfh names to others.
   job_desc.max_nodes = 1
   job_desc.admin_comment = DRFH_MARK
   if job_desc.priority == 0 then -- sbatch --hold
      job_desc.begin_time = DRFH_HELD_UNTIL
      job_desc.admin_comment = DRFH_MARK .. DRFH_HELD
   end
   job_desc.priority = 0
   return slurm.SUCCESS
end

local function drfh_refuse(job_rec, modify_uid, why)
   slurm.log_info("drfh: user %d may not change job %d: %s", modify_uid, job_rec.job_id, why)
   return slurm.ESLURM_ACCESS_DENIED or slurm.ERROR
end

-- scontrol hold, uhold and release by an owner: these move the begin time, never the priority.
local function drfh_hold_or_release(job_desc, job_rec, modify_uid)
   local id = job_rec.job_id
   if job_rec.array_job_id ~= nil and job_rec.array_job_id ~= 0 then
      id = job_rec.array_job_id -- tasks come out of an array later, with numbers of their own
   end
   if job_desc.priority == 0 then
      if drfh_holds_count >= 10000 then -- AdminComment knows all but the newest
         drfh_holds, drfh_holds_count = {}, 0
      end
      if not drfh_holds[id] then
         drfh_holds[id], drfh_holds_count = true, drfh_holds_count + 1
      end
      job_desc.begin_time = DRFH_HELD_UNTIL
   elseif job_desc.priority == slurm.INFINITE then
      local mark = job_rec.admin_comment or ""
      if not drfh_holds[id] and not string.find(mark, DRFH_HELD, 1, true) then
         return drfh_refuse(job_rec, modify_uid, "its owner does not hold it; drfh releases it")
      end
      job_desc.begin_time = os.time()
      if string.find(mark, DRFH_PARKED, 1, true) then
         job_desc.begin_time = DRFH_PARKED_UNTIL
      end
   else
      return drfh_refuse(job_rec, modify_uid, "drfh orders the jobs, not their priority")
   end
   job_desc.priority = slurm.NO_VAL
   return slurm.SUCCESS
end

function drfh_modify(job_desc, job_rec, part_list, modify_uid)
   if DRFH_TRUSTED[modify_uid] then
      return slurm.SUCCESS
   end
   -- Jobs from before this script have no mark: they are Slurm's. One that has lost its reservation
   -- has none either, and would go past all others; its owner can submit it again.
   local marked = string.sub(job_rec.admin_comment or "", 1, #DRFH_MARK) == DRFH_MARK
   local stranded = math.floor(job_rec.job_state / DRFH_RESERVATION_GONE) % 2 == 1
   local _, there = drfh_places(job_rec.partition, job_rec.resv_name, part_list)
   local ours = there and (marked or stranded)
   if job_desc.partition ~= nil or job_desc.reservation ~= nil then
      local all, some = drfh_places(job_desc.partition or job_rec.partition,
         job_desc.reservation or job_rec.resv_name, part_list)
      if (ours and not all) or (some and not there) then
         return drfh_refuse(job_rec, modify_uid, "a job neither comes to drfh nor leaves it")
      end
   end
   if not ours then
      return slurm.SUCCESS
   end
   if job_desc.req_nodes ~= nil then
      return drfh_refuse(job_rec, modify_uid, "drfh chooses its node")
   end
   if job_desc.admin_comment ~= nil then
      return drfh_refuse(job_rec, modify_uid, "AdminComment belongs to drfh")
   end
   if drfh_given(job_desc.nice) then -- it sets the priority anew, and so ends a hold
      return drfh_refuse(job_rec, modify_uid, "drfh orders the jobs, not Nice")
   end
   if drfh_needs_nodes(job_desc) then
      return drfh_refuse(job_rec, modify_uid, "drfh places a job on one node")
   end
   if drfh_given(job_desc.max_nodes) then
      job_desc.max_nodes = 1
   end
   if drfh_given(job_desc.priority) then
      local answer = drfh_hold_or_release(job_desc, job_rec, modify_uid)
      if answer ~= slurm.SUCCESS then
         return answer
      end
   end
   -- A job that is not held could start at once if it may begin now: one that is parked, one that
   -- was just released, one that runs again (scontrol requeue: Slurm lets it wait for two minutes,
   -- and drfh holds it before they are over).
   local begin = job_desc.begin_time or 0
   local far = begin == DRFH_HELD_UNTIL or begin == DRFH_PARKED_UNTIL
   if begin ~= 0 and not far and job_rec.priority ~= 0 then
      return drfh_refuse(job_rec, modify_uid, "drfh does not hold it now; try again in a moment")
   end
   return slurm.SUCCESS
end

function slurm_job_submit(job_desc, part_list, submit_uid)
   return drfh_submit(job_desc, part_list, submit_uid)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   return drfh_modify(job_desc, job_rec, part_list, modify_uid)
end

return slurm.SUCCESS
